package local

import (
	"context"
	_ "embed"
	"fmt"
	goruntime "runtime"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// binary is the planner: bindings/wasm describes its exports. In a checkout, it is built by `bash tests/run build_wasm`.
//
//go:embed rollplan.wasm
var binary []byte

// keptBytes is the memory above which an instance is discarded after a call, because memory of WebAssembly never shrinks.
// Usual requests need a few MiB.
const keptBytes = 64 << 20

// compiled is the planner, compiled once for all clients, which takes seconds of processor time.
var compiled = sync.OnceValues(func() (*module, error) {
	ctx := context.Background()
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig())
	code, err := runtime.CompileModule(experimental.WithCompilationWorkers(ctx, goruntime.GOMAXPROCS(0)), binary)
	if err != nil {
		return nil, fmt.Errorf("compile rollplan.wasm: %w", err)
	}
	return &module{runtime, code}, nil
})

// module is a compiled module.
type module struct {
	runtime wazero.Runtime
	code    wazero.CompiledModule
}

// instance is an instance of the planner, for one call at a time.
type instance struct {
	module                            api.Module
	input, call, output, outputLength api.Function
}

// instantiate creates an instance.
func (m *module) instantiate(ctx context.Context) (*instance, error) {
	// Without a name, so that there can be several.
	created, err := m.runtime.InstantiateModule(ctx, m.code, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		return nil, err
	}
	function := created.ExportedFunction
	return &instance{
		module: created, input: function("rollplan_input"), call: function("rollplan_call"),
		output: function("rollplan_output"), outputLength: function("rollplan_output_length"),
	}, nil
}

// answer answers an encoded request: a code of gRPC, and the response, or the google.rpc.Status. After an error, the instance
// must not be used again: it has panicked, or its memory was not enough.
func (i *instance) answer(ctx context.Context, method string, request []byte, isJSON bool, checks uint64) (uint64, []byte, error) {
	length := uint64(len(method) + len(request))
	input, err := i.input.Call(ctx, length)
	if err != nil {
		return 0, nil, err
	}
	memory := i.module.Memory()
	address := uint32(input[0])
	if !memory.WriteString(address, method) || !memory.Write(address+uint32(len(method)), request) {
		return 0, nil, fmt.Errorf("the request of %d bytes is outside the memory", length)
	}
	json := uint64(0)
	if isJSON {
		json = 1
	}
	code, err := i.call.Call(ctx, uint64(len(method)), json, checks)
	if err != nil {
		return 0, nil, err
	}
	start, err := i.output.Call(ctx)
	if err != nil {
		return 0, nil, err
	}
	size, err := i.outputLength.Call(ctx)
	if err != nil {
		return 0, nil, err
	}
	output, ok := memory.Read(uint32(start[0]), uint32(size[0]))
	if !ok {
		return 0, nil, fmt.Errorf("the answer of %d bytes is outside the memory", size[0])
	}
	// A copy: the next call overwrites it.
	return code[0], append([]byte(nil), output...), nil
}

// isLarge reports whether the instance has taken much memory.
func (i *instance) isLarge() bool { return i.module.Memory().Size() > keptBytes }

// close gives the memory back.
func (i *instance) close(ctx context.Context) { _ = i.module.Close(ctx) }
