package main

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"time"
)

// auditEvent has the fields of an audit event that are used here.
type auditEvent struct {
	Verb      string `json:"verb"`
	UserAgent string `json:"userAgent"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Namespace   string `json:"namespace"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestReceivedTimestamp time.Time `json:"requestReceivedTimestamp"`
}

// isReplicaSetWrite is true for a write of a ReplicaSet by the native Deployment controller or by our adapter.
func (e auditEvent) isReplicaSetWrite() bool {
	ours := strings.HasPrefix(e.UserAgent, "rollplan-controller") || strings.HasSuffix(e.UserAgent, "/deployment-controller")
	return ours && e.Verb != "get" && e.Verb != "list" && e.ResponseStatus.Code < 400 &&
		e.ObjectRef.Resource == "replicasets" && e.ObjectRef.Subresource == ""
}

// countWrites counts the writes of ReplicaSets in an audit log.
func countWrites(path string, records []record) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	writes := map[string][]milliseconds{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event auditEvent
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return err
		}
		if event.isReplicaSetWrite() {
			namespace := event.ObjectRef.Namespace
			writes[namespace] = append(writes[namespace], milliseconds(event.RequestReceivedTimestamp.UnixMilli()))
		}
	}
	for _, r := range records {
		for i := range r.Segments {
			s := &r.Segments[i]
			for _, at := range writes[r.Case.Name] {
				if s.Start <= at && at <= s.End {
					s.Writes++
				}
			}
		}
	}
	return lines.Err()
}
