package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// script plays a transcript: it answers the requests of an adapter to both servers in the recorded order, and records the
// first deviation.
type script struct {
	contract   contract
	transcript *transcript
	options    map[string]any
	// cancel cancels the sync that is in progress.
	cancel func()
	// sessions has those of earlier leaderships.
	sessions map[string]bool

	mu sync.Mutex
	// session is that of the current leadership, or empty before its first request.
	session string
	// sent has the bodies that were sent, by the ids of their answers.
	sent map[string]sentBodies
	// sync is nil between two syncs.
	sync      *transcriptSync
	next      int
	attempts  int
	notBefore time.Time
	// timerSet is when the last sync with a request began.
	timerSet time.Time
	events   []event
	// recorded counts the events of all syncs.
	recorded  int
	deviation string
	// ended is closed when the transcript ends, so that hanging handlers return.
	ended chan struct{}
}

// sentBodies are the bodies of the answers to the call of a step, and to its read_on_conflict.
type sentBodies struct {
	body, existing []byte
}

func newScript(c contract, t *transcript, sessions map[string]bool, cancel func()) (*script, error) {
	s := &script{
		contract: c, transcript: t, options: map[string]any{}, cancel: cancel, sessions: sessions,
		sent: map[string]sentBodies{}, ended: make(chan struct{}),
	}
	if t.Options != nil {
		if err := json.Unmarshal(t.Options, &s.options); err != nil {
			return nil, fmt.Errorf("%s: options: %w", t.Name, err)
		}
	}
	return s, nil
}

// serve starts both servers. The planner speaks HTTP/1.1 and HTTP/2 without TLS.
func (s *script) serve() (api, planner *httptest.Server) {
	mux := http.NewServeMux()
	for method := range s.contract {
		mux.HandleFunc("POST /rollplan.v1.RolloutPlanner/"+method, func(w http.ResponseWriter, r *http.Request) { s.plan(method, w, r) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.deviate("the adapter calls %s, which the service does not have", r.URL.Path)
		http.NotFound(w, r)
	})
	planner = httptest.NewUnstartedServer(mux)
	planner.Config.Protocols = &http.Protocols{}
	planner.Config.Protocols.SetHTTP1(true)
	planner.Config.Protocols.SetUnencryptedHTTP2(true)
	planner.Start()
	return httptest.NewServer(http.HandlerFunc(s.call)), planner
}

// begin starts a sync.
func (s *script) begin(sync *transcriptSync) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sync, s.next, s.attempts, s.events = sync, 0, 0, nil
	if len(sync.Exchanges) > 0 {
		s.timerSet = time.Now()
	}
}

// lead begins a leadership.
func (s *script) lead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = ""
}

// inSession returns an error unless the session of a request is that of the current leadership.
func (s *script) inSession(session string) error {
	switch {
	case session == "":
		return errors.New("sync.session is empty")
	case s.session == "" && s.sessions[session]:
		return errors.New("sync.session is that of an earlier leadership")
	case s.session != "" && session != s.session:
		return errors.New("sync.session is not that of the last request")
	}
	s.session, s.sessions[session] = session, true
	return nil
}

// take returns the exchange for a request, or nil if the transcript has a different one at this point.
func (s *script) take(what string, matches func(*exchange) error) *exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deviation != "" {
		return nil
	}
	if s.sync == nil {
		s.deviation = what + " outside of a sync"
		return nil
	}
	for i := s.next; i < len(s.sync.Exchanges); i++ {
		e := s.sync.Exchanges[i]
		err := matches(e)
		if err == nil {
			if s.notBefore.After(time.Now()) {
				s.deviation = fmt.Sprintf("%s: %s earlier than RetryInfo allows", what, time.Until(s.notBefore))
				return nil
			}
			if s.attempts++; s.attempts >= e.AttemptsMax {
				s.next, s.attempts = i+1, 0
			}
			return e
		}
		if i == s.next && s.attempts > 0 {
			continue // already repeated
		}
		s.deviation = fmt.Sprintf("request %d of the sync is %s, but the transcript has %s: %v", i+1, what, e, err)
		return nil
	}
	s.deviation = what + " after the last request of the sync"
	return nil
}

// answered records that an exchange is complete, and allows the next request.
func (s *script) answered(e *exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notBefore = time.Time{}
	if e.Error != nil {
		s.notBefore = time.Now().Add(time.Duration(e.Error.RetryAfterMs) * time.Millisecond)
	}
}

// hang waits until the client has given up.
func (s *script) hang(r *http.Request, cancel bool) {
	if cancel {
		s.cancel()
	}
	select {
	case <-r.Context().Done():
	case <-s.ended:
	}
}

func (s *script) deviate(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deviation == "" {
		s.deviation = fmt.Sprintf(format, args...)
	}
}

// end ends a sync, and returns an error if an exchange of the transcript is missing.
func (s *script) end(result *syncResult) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sync := s.sync
	s.sync = nil
	if s.deviation != "" {
		return errors.New(s.deviation)
	}
	for i, e := range sync.Exchanges[s.next:] {
		if i > 0 || s.attempts == 0 {
			return fmt.Errorf("the sync ended without %s (its result is %s %s)", e, result.Outcome, result.Error)
		}
	}
	return result.check(sync, append(s.events, result.Events...), time.Since(s.timerSet))
}
