package rollplan

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// BenchmarkConvert measures the conversion of an object to its message, with and without the result of the last snapshot.
func BenchmarkConvert(b *testing.B) {
	object := web()
	object.SetManagedFields(nil)
	for _, cached := range []bool{false, true} {
		b.Run(fmt.Sprintf("cached=%t", cached), func(b *testing.B) {
			previous := map[types.UID]conversion{}
			if _, err := convert(nil, previous, object, &rollplanv1.Deployment{}); err != nil {
				b.Fatal(err)
			}
			if !cached {
				previous = nil
			}
			for b.Loop() {
				if _, err := convert(previous, map[types.UID]conversion{}, object, &rollplanv1.Deployment{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
