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

// calls counts API calls by their kind.
type calls struct {
	replicaSetWrites, statusWrites, otherWrites, events, rejected, reads int
}

// writes returns the number of ReplicaSet and status writes.
func (c calls) writes() int { return c.replicaSetWrites + c.statusWrites }

// auditLog reads the audit log incrementally.
type auditLog struct {
	path   string
	offset int64
}

// auditEvent contains the fields of an audit event that are used here.
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

// untilQuiet counts the new calls of a controller until no more arrive, because controllers write events with a delay.
func (a *auditLog) untilQuiet(ctx context.Context, native bool) (sum calls, err error) {
	const quiet = 2 * time.Second
	for {
		more, err := a.readNew(native)
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
	c.replicaSetWrites += more.replicaSetWrites
	c.statusWrites += more.statusWrites
	c.otherWrites += more.otherWrites
	c.events += more.events
	c.rejected += more.rejected
	c.reads += more.reads
}

// readNew counts the calls of a controller since the last read.
func (a *auditLog) readNew(native bool) (c calls, err error) {
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
			return c, nil // an incomplete line is read the next time
		}
		if err != nil {
			return c, err
		}
		a.offset += int64(len(line))
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return c, err
		}
		matches := strings.HasPrefix(event.UserAgent, "rollplan-controller")
		if native {
			matches = strings.HasSuffix(event.UserAgent, "/deployment-controller")
		}
		if matches {
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
		c.rejected++
	case resource == "replicasets":
		c.replicaSetWrites++
	case resource == "deployments" && event.ObjectRef.Subresource == "status":
		c.statusWrites++
	default:
		c.otherWrites++
	}
}
