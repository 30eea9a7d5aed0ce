package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"time"
)

// calls are how often something was done.
type calls struct {
	setWrites, statusWrites, otherWrites, events, refused, reads int
}

// writes are those that count for the rollout.
func (c calls) writes() int { return c.setWrites + c.statusWrites }

// auditLog is read on from where it was read to.
type auditLog struct {
	path   string
	offset int64
}

// auditEvent is what is read of an event of the audit log.
type auditEvent struct {
	Verb      string `json:"verb"`
	UserAgent string `json:"userAgent"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// untilQuiet counts the calls of one controller since the last time, and waits until there are no more: events are
// written late.
func (a *auditLog) untilQuiet(ctx context.Context, native bool) (sum calls, err error) {
	const quiet = 2 * time.Second
	for {
		more, err := a.since(native)
		if err != nil || more == (calls{}) {
			return sum, err
		}
		sum.add(more)
		select {
		case <-ctx.Done():
			return sum, ctx.Err()
		case <-time.After(quiet):
		}
	}
}

func (c *calls) add(more calls) {
	c.setWrites += more.setWrites
	c.statusWrites += more.statusWrites
	c.otherWrites += more.otherWrites
	c.events += more.events
	c.refused += more.refused
	c.reads += more.reads
}

// since counts the calls of one controller since the last time.
func (a *auditLog) since(native bool) (c calls, err error) {
	file, err := os.Open(a.path)
	if err != nil {
		return c, err
	}
	defer file.Close()
	if _, err := file.Seek(a.offset, io.SeekStart); err != nil {
		return c, err
	}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return c, nil // half a line is read the next time
		}
		if err != nil {
			return c, err
		}
		a.offset += int64(len(line))
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return c, err
		}
		ours := strings.HasPrefix(event.UserAgent, "rollplan-controller")
		if native {
			ours = strings.HasSuffix(event.UserAgent, "/deployment-controller")
		}
		if ours {
			c.count(event)
		}
	}
}

func (c *calls) count(event auditEvent) {
	resource := event.ObjectRef.Resource
	switch {
	case event.Verb == "get" || event.Verb == "list":
		c.reads++
	case resource == "events":
		c.events++
	case event.ResponseStatus.Code >= 400:
		c.refused++
	case resource == "replicasets":
		c.setWrites++
	case resource == "deployments" && event.ObjectRef.Subresource == "status":
		c.statusWrites++
	default:
		c.otherWrites++
	}
}
