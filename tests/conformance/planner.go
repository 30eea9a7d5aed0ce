package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// The methods that adapters call.
const (
	planRollout = "PlanRollout"
	planCanary  = "PlanCanary"
)

// clockTolerance is how far Snapshot.now may be from the time of the request.
const clockTolerance = time.Minute

// failedBodyBytes limits the body in the answer to a call that has failed.
const failedBodyBytes = 64 << 10

// contract has the messages by method, read from the descriptor set, so that the runner does not depend on generated code.
type contract map[string]messages

type messages struct {
	request, response protoreflect.MessageDescriptor
}

func readContract(path string) (contract, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(text, set); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	message := func(name protoreflect.FullName) protoreflect.MessageDescriptor {
		found, findErr := files.FindDescriptorByName(name)
		if findErr != nil {
			err = findErr
			return nil
		}
		return found.(protoreflect.MessageDescriptor)
	}
	c := contract{}
	for _, method := range []string{planRollout, planCanary} {
		name := protoreflect.FullName("rollplan.v1." + method)
		c[method] = messages{message(name + "Request"), message(name + "Response")}
	}
	return c, err
}

// codec is one of the three ways to call the service.
type codec int

const (
	grpcProto codec = iota
	connectProto
	connectJSON
)

func codecOf(r *http.Request) (codec, error) {
	switch contentType := r.Header.Get("Content-Type"); {
	case strings.HasPrefix(contentType, "application/grpc"):
		return grpcProto, nil
	case strings.HasPrefix(contentType, "application/proto"):
		return connectProto, nil
	case strings.HasPrefix(contentType, "application/json"):
		return connectJSON, nil
	default:
		return 0, fmt.Errorf("unsupported content type %q", contentType)
	}
}

// read returns the request in protobuf's JSON.
func (m messages) read(r *http.Request, kind codec) (map[string]any, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	message := dynamicpb.NewMessage(m.request)
	switch kind {
	case grpcProto:
		if len(body) < 5 || body[0] != 0 || int(binary.BigEndian.Uint32(body[1:])) != len(body)-5 {
			return nil, errors.New("the request is not one uncompressed message")
		}
		err = proto.Unmarshal(body[5:], message)
	case connectProto:
		err = proto.Unmarshal(body, message)
	case connectJSON:
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, message)
	}
	if err != nil {
		return nil, err
	}
	if len(message.GetUnknown()) > 0 {
		return nil, errors.New("the request has fields that the contract does not have")
	}
	text, err := protojson.Marshal(message)
	if err != nil {
		return nil, err
	}
	value, err := decode(text)
	if err != nil {
		return nil, err
	}
	return value.(map[string]any), nil
}

// write sends a response.
func (m messages) write(w http.ResponseWriter, kind codec, response json.RawMessage, eventCalls bool) error {
	message := dynamicpb.NewMessage(m.response)
	if err := (protojson.UnmarshalOptions{Resolver: protoregistry.GlobalTypes}).Unmarshal(response, message); err != nil {
		return fmt.Errorf("response of the transcript: %w", err)
	}
	if !eventCalls {
		steps := message.Get(m.response.Fields().ByName("steps")).List()
		for i := range steps.Len() {
			step := steps.Get(i).Message()
			step.Clear(step.Descriptor().Fields().ByName("event_calls"))
		}
	}
	var body []byte
	var err error
	if kind == connectJSON {
		body, err = protojson.Marshal(message)
	} else {
		body, err = proto.Marshal(message)
	}
	if err != nil {
		return err
	}
	switch kind {
	case grpcProto:
		w.Header().Set("Content-Type", "application/grpc+proto")
		w.Header().Set("Trailer", "Grpc-Status")
		frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body)))
		_, err = w.Write(append(frame, body...))
		w.Header().Set("Grpc-Status", "0")
	case connectProto:
		w.Header().Set("Content-Type", "application/proto")
		_, err = w.Write(body)
	case connectJSON:
		w.Header().Set("Content-Type", "application/json")
		_, err = w.Write(body)
	}
	return err
}

var connectCodes = map[string]struct {
	grpc codes.Code
	http int
}{
	"unavailable":        {codes.Unavailable, 503},
	"resource_exhausted": {codes.ResourceExhausted, 429},
	"invalid_argument":   {codes.InvalidArgument, 400},
	"internal":           {codes.Internal, 500},
}

// writeError sends an error with the details that the service adds.
func writeError(w http.ResponseWriter, kind codec, failure *plannerError) error {
	code, ok := connectCodes[failure.Code]
	if !ok {
		return fmt.Errorf("unknown code %q", failure.Code)
	}
	var details []*anypb.Any
	if failure.RetryAfterMs > 0 {
		delay := durationpb.New(time.Duration(failure.RetryAfterMs) * time.Millisecond)
		detail, err := anypb.New(&errdetails.RetryInfo{RetryDelay: delay})
		if err != nil {
			return err
		}
		details = append(details, detail)
	}
	if kind == grpcProto {
		status, err := proto.Marshal(&rpcstatus.Status{Code: int32(code.grpc), Message: failure.Message, Details: details})
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/grpc+proto")
		w.Header().Set("Grpc-Status", fmt.Sprint(int(code.grpc)))
		w.Header().Set("Grpc-Message", url.PathEscape(failure.Message))
		w.Header().Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(status))
		w.WriteHeader(http.StatusOK)
		return nil
	}
	type detail struct {
		Type  string `json:"type"`
		Value string `json:"value"`
	}
	body := struct {
		Code    string   `json:"code"`
		Message string   `json:"message"`
		Details []detail `json:"details,omitempty"`
	}{Code: failure.Code, Message: failure.Message}
	for _, it := range details {
		body.Details = append(body.Details, detail{string(it.MessageName()), base64.RawStdEncoding.EncodeToString(it.Value)})
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code.http)
	return json.NewEncoder(w).Encode(body)
}

// plan is the handler of a method.
func (s *script) plan(method string, w http.ResponseWriter, r *http.Request) {
	kind, err := codecOf(r)
	if err != nil {
		s.deviate("%s: %v", method, err)
		http.Error(w, err.Error(), http.StatusUnsupportedMediaType)
		return
	}
	request, err := s.contract[method].read(r, kind)
	if err != nil {
		s.fail(w, kind, "%s: %v", method, err)
		return
	}
	if r.Header.Get("Grpc-Timeout") == "" && r.Header.Get("Connect-Timeout-Ms") == "" {
		s.fail(w, kind, "%s: the service is not told the deadline of the call (grpc-timeout or Connect-Timeout-Ms)", method)
		return
	}
	e := s.take(method, func(e *exchange) error {
		if e.Plan == nil {
			return errors.New("no plan is requested here")
		}
		if want := s.sync.method(); method != want {
			return fmt.Errorf("want %s", want)
		}
		return s.sameRequest(e.Plan, request)
	})
	if e == nil {
		s.fail(w, kind, "")
		return
	}
	defer s.answered(e)
	switch {
	case e.Hang:
		s.hang(r, e.Cancel)
		panic(http.ErrAbortHandler)
	case e.HTTP != nil:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(e.HTTP.Code)
		_, err = io.WriteString(w, e.HTTP.Text)
	case e.Error != nil:
		err = writeError(w, kind, e.Error)
	default:
		options, _ := request["options"].(map[string]any)
		err = s.contract[method].write(w, kind, e.Response, options["eventsAsCalls"] == true)
	}
	if err != nil {
		s.deviate("answer of %s: %v", method, err)
	}
}

// fail records a deviation, and ends the call.
func (s *script) fail(w http.ResponseWriter, kind codec, format string, args ...any) {
	if format != "" {
		s.deviate(format, args...)
	}
	_ = writeError(w, kind, &plannerError{Code: "internal", Message: "the transcript has another request here"})
}

// sameRequest compares a request with that of the transcript.
func (s *script) sameRequest(want *planRequest, request map[string]any) error {
	if s.sync.Canary != nil {
		canary, err := decode(s.sync.Canary)
		if err != nil {
			return err
		}
		have := maps.Clone(request)
		delete(have, "snapshot")
		if found := difference("request", canary, have); found != "" {
			return errors.New(found)
		}
	} else if err := s.sameSettings(request); err != nil {
		return err
	}
	snapshot, _ := request["snapshot"].(map[string]any)
	now, err := time.Parse(time.RFC3339Nano, fmt.Sprint(snapshot["now"]))
	if err != nil || time.Since(now).Abs() > clockTolerance {
		return fmt.Errorf("snapshot.now is %v, want the current time", snapshot["now"])
	}
	if snapshot["replicaSetsComplete"] != true {
		return errors.New("replica_sets_complete is not set")
	}
	if have := snapshot["podsComplete"] == true; have != want.PodsComplete {
		return fmt.Errorf("pods_complete is %v, want %v", have, want.PodsComplete)
	}
	if err := s.sameTarget(snapshot["target"]); err != nil {
		return err
	}
	var entries []string
	list, _ := snapshot["objects"].([]any)
	for _, entry := range list {
		entries = append(entries, entry.(string))
	}
	if err := s.transcript.sameObjects(want.Objects, s.sync.Cache, entries); err != nil || s.sync.Canary != nil {
		return err
	}
	return s.sameSync(want, request)
}

// sameSettings compares what an adapter is told when it starts.
func (s *script) sameSettings(request map[string]any) error {
	options := map[string]any{}
	if have, ok := request["options"].(map[string]any); ok {
		options = maps.Clone(have)
	}
	// Up to the adapter.
	delete(options, "eventsAsCalls")
	delete(options, "report")
	if found := difference("options", s.options, options); found != "" {
		return errors.New(found)
	}
	sync, _ := request["sync"].(map[string]any)
	for name, milliseconds := range map[string]int{
		"statusInterval": s.transcript.StatusIntervalMs, "minInterval": s.transcript.MinIntervalMs,
	} {
		have := time.Duration(0)
		if text, ok := sync[name].(string); ok {
			var err error
			if have, err = time.ParseDuration(text); err != nil {
				return fmt.Errorf("sync.%s: %w", name, err)
			}
		}
		if want := time.Duration(milliseconds) * time.Millisecond; have != want {
			return fmt.Errorf("sync.%s is %s, want %s", name, have, want)
		}
	}
	return nil
}

// sameSync compares the state of the loop with that of the transcript.
func (s *script) sameSync(want *planRequest, request map[string]any) error {
	sync, ok := request["sync"].(map[string]any)
	if !ok {
		return errors.New("sync is absent")
	}
	session, _ := sync["session"].(string)
	if err := s.inSession(session); err != nil {
		return err
	}
	if value, _ := sync["value"].(string); value != want.Value {
		return fmt.Errorf("sync.value is %q, want that of the last response about the owner, %q", value, want.Value)
	}
	answers, _ := sync["answers"].([]any)
	if len(answers) != len(want.Answers) {
		return fmt.Errorf("sync.answers has %d entries, want %d", len(answers), len(want.Answers))
	}
	for i, expected := range want.Answers {
		if err := s.sameAnswer(expected, answers[i].(map[string]any)); err != nil {
			return fmt.Errorf("sync.answers[%d].%w", i, err)
		}
	}
	return nil
}

func (s *script) sameTarget(target any) error {
	have, _ := target.(map[string]any)
	owner := s.transcript.Owner
	for field, want := range map[string]string{
		"apiVersion": owner.APIVersion, "kind": owner.Kind, "namespace": owner.Namespace, "name": owner.Name, "resource": owner.Resource,
	} {
		// The resource is optional, because the planner derives it from the kind.
		if have[field] != want && (field != "resource" || have[field] != nil) {
			return fmt.Errorf("snapshot.target.%s is %v, want %s", field, have[field], want)
		}
	}
	return nil
}

func (s *script) sameAnswer(want *plannedAnswer, have map[string]any) error {
	if have["id"] != want.ID {
		return fmt.Errorf("id is %v, want %s", have["id"], want.ID)
	}
	if made := have["made"] == true; made != want.Made {
		return fmt.Errorf("made is %v, want %v", made, want.Made)
	}
	code := have["httpCode"]
	if code == nil {
		code = json.Number("0")
	}
	if fmt.Sprint(code) != fmt.Sprint(want.HTTPCode) {
		return fmt.Errorf("http_code is %v, want %d", code, want.HTTPCode)
	}
	var sent sentBodies
	if want.Made && want.HTTPCode > 0 {
		sent.body = s.sent[want.ID].body
		if want.HTTPCode/100 != 2 {
			sent.body = sent.body[:min(len(sent.body), failedBodyBytes)]
		}
	}
	if want.Existing {
		sent.existing = s.sent[want.ID].existing
	}
	for field, bytesSent := range map[string][]byte{"body": sent.body, "existing": sent.existing} {
		text, _ := have[field].(string)
		body, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
		if !bytes.Equal(body, bytesSent) {
			return fmt.Errorf("%s is %.200q (%d bytes), want %.200q (%d bytes)", field, body, len(body), bytesSent, len(bytesSent))
		}
	}
	return nil
}

// sameJSON compares a text with that of the transcript.
func sameJSON(path string, want, have []byte) error {
	expected, err := decode(want)
	if err != nil {
		return err
	}
	value, err := decode(have)
	if err != nil {
		return fmt.Errorf("%s is not JSON: %q", path, have)
	}
	if found := difference(path, expected, value); found != "" {
		return errors.New(found)
	}
	return nil
}
