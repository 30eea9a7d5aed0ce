// The tests of the chart and the images on a real node.
module rollplan.dev/rollplan/tests/node

go 1.26.0

replace rollplan.dev/rollplan/adapters/go => ../../adapters/go

require (
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
	rollplan.dev/rollplan/adapters/go v0.0.0-00010101000000-000000000000
	sigs.k8s.io/yaml v1.6.0
)

require (
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
)
