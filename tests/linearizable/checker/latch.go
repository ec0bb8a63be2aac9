package main

import "fmt"

// A LatchStep is an operation on a latch by one of its handles, which the client's number names.
type LatchStep struct {
	// Op is one of these:
	//
	//   - init: creates the latch with the count Left.
	//   - count: counts down by By, once for each Name. A call that counts down without a participant has a name of its own.
	//   - arrive: the same, or has no effect if the name has counted.
	//   - read: the latch exists, and Left is its count. If there is a Name, it has counted.
	//   - exists, absent: whether the latch exists.
	//   - delete: deletes the latch.
	//   - reached: the latch that the handle has created or counted last was reached; if there is none, or a wait has returned its end, the one
	//     that exists.
	//   - ended: a wait has returned another end than that.
	Op   string `json:"op"`
	Name string `json:"name,omitempty"`
	By   int64  `json:"by,omitempty"`
	Left int64  `json:"left,omitempty"`
}

// maxLatches is the number of latches of one name that a history may have, one after the other.
const maxLatches = 64

// A latch is the state of a latch. Names and handles have numbers, which the bytes of texts are.
type latch struct {
	exists bool
	left   int64
	// counted is the set of the names that have counted.
	counted string
	// number is that of the latch among those of its name, the first is 1.
	number byte
	// reached has a bit for each latch that was reached.
	reached uint64
	// last has the number of the latch that each handle has created or counted last, or zero.
	last string
}

// latchNumbers has the numbers of the names and handles of a history.
type latchNumbers struct {
	names   map[string]int
	handles map[int]int
}

func (s *LatchStep) validate() error {
	switch s.Op {
	case "init", "read", "exists", "absent", "delete", "reached", "ended":
		return nil
	case "count", "arrive":
		if s.Name == "" || s.By <= 0 {
			return fmt.Errorf("count by %d for %q", s.By, s.Name)
		}
		return nil
	}
	return fmt.Errorf("unknown operation of a latch %q", s.Op)
}

func (s *LatchStep) String() string {
	switch s.Op {
	case "init":
		return fmt.Sprintf("init %d", s.Left)
	case "count", "arrive":
		return fmt.Sprintf("%s %s - %d", s.Op, s.Name, s.By)
	case "read":
		if s.Name != "" {
			return fmt.Sprintf("read after %s: %d", s.Name, s.Left)
		}
		return fmt.Sprintf("read: %d", s.Left)
	}
	return s.Op
}

func numberLatch(history []Operation) *latchNumbers {
	numbers := &latchNumbers{map[string]int{}, map[int]int{}}
	for at := range history {
		if name := history[at].Latch.Name; name != "" {
			if _, found := numbers.names[name]; !found {
				numbers.names[name] = len(numbers.names)
			}
		}
		if _, found := numbers.handles[history[at].Client]; !found {
			numbers.handles[history[at].Client] = len(numbers.handles)
		}
	}
	return numbers
}

func (n *latchNumbers) initial() latch {
	return latch{
		counted: string(make([]byte, (len(n.names)+7)/8)),
		last:    string(make([]byte, len(n.handles))),
	}
}

// step reports whether an operation may happen now, and returns the state after it. A handle does not note what an operation with an unknown
// outcome did.
func (n *latchNumbers) step(state latch, operation *Operation) (bool, latch) {
	step := operation.Latch
	handle, name := n.handles[operation.Client], n.names[step.Name]
	hasCounted := step.Name != "" && state.counted[name/8]&(1<<(name%8)) != 0
	next := state
	switch step.Op {
	case "init":
		if state.exists || state.number+1 >= maxLatches {
			return false, state
		}
		next.exists, next.left, next.number = true, step.Left, state.number+1
		next.counted = n.initial().counted
	case "count", "arrive":
		if state.exists && hasCounted && step.Op == "arrive" {
			break
		}
		if !state.exists || hasCounted || state.left < step.By {
			return false, state
		}
		next.left -= step.By
		next.counted = with(state.counted, name/8, state.counted[name/8]|1<<(name%8))
	case "read":
		if !state.exists || state.left != step.Left || step.Name != "" && !hasCounted {
			return false, state
		}
	case "exists":
		return state.exists, state
	case "absent":
		return !state.exists, state
	case "delete":
		if !state.exists {
			return false, state
		}
		next.exists = false
	case "reached":
		last := state.last[handle]
		if last == 0 && !(state.exists && state.left == 0) || last != 0 && state.reached&(1<<last) == 0 {
			return false, state
		}
	}
	if next.exists && next.left == 0 {
		next.reached |= 1 << next.number
	}
	switch {
	case operation.Outcome == unknown:
	case step.Op == "init" || step.Name != "":
		next.last = with(state.last, handle, next.number)
	case step.Op == "delete" || step.Op == "reached" || step.Op == "ended":
		next.last = with(state.last, handle, 0)
	}
	return true, next
}

// with returns the text with another byte at a place.
func with(text string, at int, value byte) string {
	bytes := []byte(text)
	bytes[at] = value
	return string(bytes)
}

// changes reports whether an operation that has not returned may have had an effect.
func (s *LatchStep) changes() bool {
	return s.Op == "init" || s.Op == "count" || s.Op == "arrive" || s.Op == "delete"
}

// reduceLatch attempts to leave out what only says what was the case. What handles note matters only if there are waits.
func reduceLatch(history []Operation, attempt func([]Operation) bool) {
	without := func(leaveOut func(step *LatchStep) bool) {
		var smaller []Operation
		for at := range history {
			if !leaveOut(history[at].Latch) {
				smaller = append(smaller, history[at])
			}
		}
		if attempt(smaller) {
			history = smaller
		}
	}
	isWait := func(step *LatchStep) bool { return step.Op == "reached" || step.Op == "ended" }
	without(isWait)
	hasWaits := false
	for at := range history {
		hasWaits = hasWaits || isWait(history[at].Latch)
	}
	for at := len(history) - 1; at >= 0; at-- {
		step := history[at].Latch
		if step.Op == "exists" || step.Op == "absent" || step.Op == "read" && (step.Name == "" || !hasWaits) {
			without(func(other *LatchStep) bool { return other == step })
		}
	}
}
