package main

import "testing"

// The tolerances are exact binomial bounds, so a model that is right fails a small run once in 10,000.
func TestToleranceOfSmallRuns(t *testing.T) {
	for _, test := range []struct {
		all   int
		share float64
		want  int
	}{{0, 0.9, 0}, {1, 0.9, 1}, {6, 0.9, 4}, {8, 0.9, 5}, {13, 0.95, 5}, {40, 0.95, 2}, {164, 0.95, 8}} {
		if got := tolerated(test.all, test.share); got != test.want {
			t.Errorf("%d, %.2f: %d, want %d", test.all, test.share, got, test.want)
		}
	}
}

// A run in which most durations are missed fails, whatever its size is.
func TestMissedDurationsFail(t *testing.T) {
	for _, covered := range []ratio{{1, 6}, {2, 8}, {30, 69}, {69, 69}} {
		if v := (verdict{covered: covered}); len(v.failures()) == 0 {
			t.Errorf("%s passes", covered)
		}
	}
	for _, covered := range []ratio{{2, 6}, {6, 6}, {60, 69}} {
		if v := (verdict{covered: covered}); len(v.failures()) != 0 {
			t.Errorf("%s: %v", covered, v.failures())
		}
	}
}
