package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"rollplan.dev/rollplan/tests/e2e/workloads"
)

// Phases of a canary.
const (
	rest      = "CANARY_PHASE_REST"
	held      = "CANARY_PHASE_HOLD"
	promoting = "CANARY_PHASE_PROMOTING"
	aborting  = "CANARY_PHASE_ABORTING"
	done      = "CANARY_PHASE_DONE"
	aborted   = "CANARY_PHASE_ABORTED"
)

// plan has the fields of PlanCanaryResponse that a steerer needs.
type plan struct {
	Steps []struct {
		Call struct {
			ContentType string `json:"contentType"`
			BodyJSON    string `json:"bodyJson"`
			Path        string `json:"path"`
			Query       string `json:"query"`
		} `json:"call"`
	} `json:"steps"`
	Report struct {
		Phase   string `json:"phase"`
		Message string `json:"message"`
		Reasons []struct {
			Kind   string `json:"kind"`
			Reason string `json:"reason"`
		} `json:"reasons"`
		PodsAvailable int `json:"podsAvailable"`
	} `json:"report"`
	RequeueAfter string `json:"requeueAfter"`
}

// command is a command of the user.
type command struct {
	Action     string `json:"action"`
	Deployment string `json:"deployment,omitempty"`
	Force      bool   `json:"force,omitempty"`
}

// steering is what the steerers of a case share: the command of the user, and what they have learned.
type steering struct {
	h         *harness
	c         testCase
	namespace string
	log       *namespaceLog

	mu      sync.Mutex
	command *command
	// phase is that of the last plan without a step, and refusal the last plan that was refused. since is when either changed, or a
	// command was given.
	phase, message, refusal string
	since                   time.Time
	patches, deaths, late   int
}

func (s *steering) order(c *command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.command, s.refusal = c, ""
	if c != nil {
		s.since = time.Now()
	}
}

func (s *steering) current() *command {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.command
}

// learned returns the phase, the last refusal since the last command, and since when nothing was learned.
func (s *steering) learned() (phase, refusal string, since time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase, s.refusal, time.Since(s.since)
}

func (s *steering) learn(phase, message, refusal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != phase || s.refusal != refusal {
		s.since = time.Now()
	}
	s.phase, s.message, s.refusal = phase, message, refusal
}

// steer plans and patches until the context ends. Now and then, it dies after a patch, or before it.
func (s *steering) steer(ctx context.Context, number int) error {
	random := rand.New(rand.NewPCG(s.c.Seed, uint64(100+number)))
	deaths := slices.Clone(s.c.Deaths)
	if number > 0 && len(deaths) > 0 {
		deaths = deaths[1:]
	}
	patches, seen := 0, -1
	var at time.Time
	for ; ctx.Err() == nil; sleep(ctx, 100*time.Millisecond) {
		_, events := s.log.latest()
		ordered := s.current()
		if events == seen && time.Now().Before(at) {
			continue
		}
		seen, at = events, time.Now().Add(time.Second)
		p, err := s.plan(ctx, ordered)
		var refused *workloads.CallError
		switch {
		case errors.As(err, &refused) && strings.Contains(refused.Body, "failed_precondition"):
			phase, _, _ := s.learned()
			s.learn(phase, "", refused.Body)
			continue
		case apierrors.IsTooManyRequests(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
			continue
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if len(p.Steps) == 0 {
			s.learn(p.Report.Phase, p.Report.Message, "")
			if after, err := time.ParseDuration(p.RequeueAfter); err == nil {
				at = time.Now().Add(min(after, time.Second))
			}
			continue
		}
		dies := slices.Contains(deaths, patches)
		patches++
		send := func() error {
			err := s.patch(ctx, p)
			if ctx.Err() != nil || apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
				return nil // something has changed
			}
			return err
		}
		if dies && s.c.Late {
			s.count(&s.late)
			time.AfterFunc(time.Duration(random.IntN(2500))*time.Millisecond, func() {
				if err := send(); err != nil {
					s.h.Failed(fmt.Errorf("%s: late patch: %w", s.c, err))
				}
			})
		} else if err := send(); err != nil {
			return err
		}
		seen = -1
		if dies {
			s.count(&s.deaths)
			sleep(ctx, time.Duration(300+random.IntN(1700))*time.Millisecond)
		}
	}
	return nil
}

func (s *steering) count(counter *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*counter++
}

// plan calls PlanCanary with the current state, the Deployment first: its generation is tested by the patch.
func (s *steering) plan(ctx context.Context, ordered *command) (p plan, err error) {
	objects, err := workloads.List(ctx, s.h.dynamic, s.namespace, workloads.Deployments, workloads.ReplicaSets, workloads.Pods)
	if err != nil {
		return p, err
	}
	var steps []map[string]any
	for _, pods := range s.c.Steps {
		steps = append(steps, map[string]any{"pods": pods})
	}
	policy := map[string]any{"steps": steps, "surge": s.c.Surge, "bake": fmt.Sprintf("%ds", s.c.Bake)}
	for key, value := range s.c.Policy {
		policy[key] = value
	}
	body, err := json.Marshal(map[string]any{
		"snapshot": map[string]any{"now": time.Now().UTC().Format(time.RFC3339Nano), "objects": objects, "replicaSetsComplete": true, "podsComplete": true},
		"policy":   policy, "command": ordered,
	})
	if err != nil {
		return p, err
	}
	return p, s.h.service.Call(ctx, "PlanCanary", body, &p)
}

// patch carries the step of a plan out.
func (s *steering) patch(ctx context.Context, p plan) error {
	call := p.Steps[0].Call
	body := []byte(call.BodyJSON)
	if s.c.sabotage != nil {
		var operations []map[string]any
		if err := json.Unmarshal(body, &operations); err != nil {
			return err
		}
		s.c.sabotage(operations)
		var err error
		if body, err = json.Marshal(operations); err != nil {
			return err
		}
	}
	query, err := url.ParseQuery(call.Query)
	if err != nil {
		return err
	}
	request := s.h.typed.AppsV1().RESTClient().Patch(types.PatchType(call.ContentType)).AbsPath(call.Path).Body(body)
	for key, values := range query {
		request = request.Param(key, values[0])
	}
	err = request.Do(ctx).Into(&appsv1.Deployment{})
	if err == nil {
		s.count(&s.patches)
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
