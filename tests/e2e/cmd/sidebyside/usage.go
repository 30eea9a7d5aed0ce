package main

import (
	"context"
	"time"

	"rollplan.dev/rollplan/tests/e2e/adapter"
	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// usage is the resource usage of the programs that are compared.
type usage struct {
	controllers, adapter, service controlplane.Usage
}

// since returns the usage since an earlier one.
func (u usage) since(before usage) usage {
	return usage{u.controllers.Sub(before.controllers), u.adapter.Sub(before.adapter), u.service.Sub(before.service)}
}

func usageOf(s *adapter.System, native bool) (u usage, err error) {
	if u.controllers, err = s.ControllerManagerUsage(); err != nil || native {
		return u, err
	}
	if u.adapter, err = s.Adapter("adapter").Usage(); err != nil {
		return u, err
	}
	u.service, err = s.Service().Usage()
	return u, err
}

// settled returns the usage once the adapter has nothing left to do after its start.
func settled(ctx context.Context, s *adapter.System, native bool) (usage, error) {
	const interval, enough = 2 * time.Second, 40 * time.Millisecond
	before, err := usageOf(s, native)
	for err == nil {
		select {
		case <-ctx.Done():
			return before, ctx.Err()
		case <-time.After(interval):
		}
		var after usage
		if after, err = usageOf(s, native); err == nil && after.adapter.CPU-before.adapter.CPU < enough {
			return after, nil
		}
		before = after
	}
	return before, err
}
