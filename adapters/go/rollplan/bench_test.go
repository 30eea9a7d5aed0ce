package rollplan

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// BenchmarkConvert shows what the messages of a snapshot cost, made anew and taken from the last one.
func BenchmarkConvert(b *testing.B) {
	object := web()
	object.SetManagedFields(nil)
	for _, known := range []bool{false, true} {
		b.Run(fmt.Sprintf("known=%t", known), func(b *testing.B) {
			before := map[types.UID]conversion{}
			if _, err := convert(nil, before, object, &rollplanv1.Deployment{}); err != nil {
				b.Fatal(err)
			}
			if !known {
				before = nil
			}
			for b.Loop() {
				if _, err := convert(before, map[types.UID]conversion{}, object, &rollplanv1.Deployment{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
