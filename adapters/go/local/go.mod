// The planner in the process of its caller, as WebAssembly. A module of its own, because it contains a file that is built
// (bash tests/run build_wasm), and so that a client of the service does not need wazero.
module rollplan.dev/rollplan/adapters/go/local

go 1.26.0

require (
	// Runs WebAssembly without cgo, and has no dependencies.
	github.com/tetratelabs/wazero v1.12.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
	rollplan.dev/rollplan/adapters/go v0.0.0
)

require (
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)

replace rollplan.dev/rollplan/adapters/go => ../
