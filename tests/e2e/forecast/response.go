package main

import "time"

// response has the fields of ForecastRolloutResponse that are compared.
type response struct {
	Effect     string `json:"effect"`
	StartTimes struct {
		Source string `json:"source"`
		Count  int    `json:"count"`
		Guess  bool   `json:"guess"`
	} `json:"startTimes"`
	Limits struct {
		PodsMax int `json:"podsMax"`
	} `json:"limits"`
	Expected forecast `json:"expected"`
}

type forecast struct {
	Outcome          string         `json:"outcome"`
	Reason           string         `json:"reason"`
	Duration         *durationRange `json:"duration"`
	PodsMax          countRange     `json:"podsMax"`
	AvailableMin     countRange     `json:"availableMin"`
	ReplicaSetWrites countRange     `json:"replicaSetWrites"`
}

const never = "OUTCOME_NEVER"

type countRange struct {
	Low    int `json:"low"`
	Median int `json:"median"`
	High   int `json:"high"`
}

type durationRange struct {
	Low    duration `json:"low"`
	Median duration `json:"median"`
	High   duration `json:"high"`
}

// duration is a protobuf duration as JSON, for example "1.5s".
type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}
