package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// call is the handler of the API server.
func (s *script) call(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.deviate("%s %s: %v", r.Method, r.URL.Path, err)
		return
	}
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/events") {
		s.recordEvent(w, body)
		return
	}
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/events") {
		// Warnings make verdicts more certain, and an adapter may read them.
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"EventList","apiVersion":"v1","metadata":{"resourceVersion":"99999"},"items":[]}`)
		return
	}
	e := s.take(r.Method+" "+r.URL.Path, func(e *exchange) error {
		if e.apiCall() == nil {
			return errors.New("want a plan")
		}
		return sameCall(e.apiCall(), r, body)
	})
	if e == nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"BadRequest","code":400,"message":"the transcript has another request here"}`)
		return
	}
	defer s.answered(e)
	if err := s.reply(w, r, e); err != nil {
		s.deviate("answer of %s: %v", e, err)
	}
}

// reply sends the answer of the transcript.
func (s *script) reply(w http.ResponseWriter, r *http.Request, e *exchange) error {
	a := e.Answer
	switch {
	case a.Hang:
		s.hang(r, a.Cancel)
		panic(http.ErrAbortHandler)
	case a.Lost:
		panic(http.ErrAbortHandler)
	}
	contentType, body := "application/json", []byte(a.Body)
	switch {
	case a.Text != "":
		contentType, body = "text/html", []byte(strings.Repeat(a.Text, max(a.Repeated, 1)))
	case a.Object != "":
		body = s.transcript.Objects[a.Object]
	case a.List != nil:
		var err error
		if body, err = s.list(a.List); err != nil {
			return err
		}
	}
	s.mu.Lock()
	sent := sentBodies{body: body}
	if e.Existing {
		sent = sentBodies{body: s.sent[e.ID].body, existing: body}
	}
	s.sent[e.ID] = sent
	s.mu.Unlock()
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(a.Code)
	_, err := w.Write(body)
	return err
}

// list returns a ReplicaSetList as the API server prints it: without the kinds of the items.
func (s *script) list(keys []string) ([]byte, error) {
	items := []any{}
	for _, key := range keys {
		object := s.transcript.object(key)
		delete(object, "apiVersion")
		delete(object, "kind")
		items = append(items, object)
	}
	return json.Marshal(map[string]any{
		"kind": "ReplicaSetList", "apiVersion": "apps/v1", "metadata": map[string]any{"resourceVersion": "99999"}, "items": items,
	})
}

// sameCall compares a call with that of the transcript, except for the field manager, which the adapter chooses. That of canaries must
// stay: an admission policy recognizes their writes by it.
func sameCall(want *apiCall, r *http.Request, body []byte) error {
	if r.Method != want.Method || r.URL.Path != want.Path {
		return fmt.Errorf("want %s %s", want.Method, want.Path)
	}
	expected, err := url.ParseQuery(want.Query)
	if err != nil {
		return err
	}
	have := r.URL.Query()
	if expected.Get("fieldManager") != "rollplan-canary" {
		expected.Del("fieldManager")
		have.Del("fieldManager")
	}
	if expected.Encode() != have.Encode() {
		return fmt.Errorf("the query is %q, want %q", have.Encode(), expected.Encode())
	}
	if want.Body == nil {
		return nil
	}
	contentType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if contentType != want.ContentType {
		return fmt.Errorf("the content type is %q, want %q", contentType, want.ContentType)
	}
	return sameJSON("body", want.Body, body)
}

// eventAnswers are the answers to the creation of events, in turn. A plan does not depend on them: 409 means that the event is
// already recorded, and an adapter without permission to create events still carries out plans.
var eventAnswers = []struct {
	code   int
	reason string
}{
	{http.StatusForbidden, "Forbidden"},
	{http.StatusConflict, "AlreadyExists"},
	{http.StatusNotFound, "NotFound"},
	{http.StatusCreated, ""},
}

// recordEvent answers the creation of an event by an adapter that records events itself.
func (s *script) recordEvent(w http.ResponseWriter, body []byte) {
	var recorded event
	if err := json.Unmarshal(body, &recorded); err != nil {
		s.deviate("event: %v", err)
	}
	s.mu.Lock()
	s.events = append(s.events, recorded)
	answer := eventAnswers[s.recorded%len(eventAnswers)]
	s.recorded++
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.code)
	if answer.code == http.StatusCreated {
		_, _ = w.Write(body)
		return
	}
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, answer.reason, answer.code)
}
