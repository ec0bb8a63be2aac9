package main

import "fmt"

// A LockStep is an operation on a lock by one of its holds, which its fencing number names.
//
// An attempt to acquire that failed, or whose outcome is unknown, is not recorded: it says nothing, and a hold that no client knows of can be
// left out of any order of the others.
type LockStep struct {
	// Op is one of these:
	//
	//   - acquire: the hold begins.
	//   - renew: the lock is held.
	//   - release: the hold ends, and the lock was held until then.
	//   - end: the hold ends if it has not ended yet. With an unknown outcome: the hold may end at any moment from the call on.
	Op      string `json:"op"`
	Fencing int64  `json:"fencing"`
}

// A lock is the state of a lock.
type lock struct {
	// holder is the fencing number of the hold, or zero.
	holder int64
	// highest is the highest fencing number so far.
	highest int64
}

func (s *LockStep) validate() error {
	switch s.Op {
	case "acquire", "renew", "release", "end":
	default:
		return fmt.Errorf("unknown operation of a lock %q", s.Op)
	}
	if s.Fencing <= 0 {
		return fmt.Errorf("fencing number %d", s.Fencing)
	}
	return nil
}

func (s *LockStep) String() string {
	return fmt.Sprintf("%s %d", s.Op, s.Fencing)
}

// step reports whether an operation may happen now, and returns the state after it.
func (s *LockStep) step(state lock) (bool, lock) {
	isHeld := state.holder == s.Fencing
	free := lock{highest: state.highest}
	switch s.Op {
	case "acquire":
		return state.holder == 0 && s.Fencing > state.highest, lock{s.Fencing, s.Fencing}
	case "renew":
		return isHeld, state
	case "release":
		return isHeld, free
	}
	if isHeld {
		return true, free
	}
	return true, state
}

// reduceLock attempts to leave out whole holds, then operations that only say what was the case.
func reduceLock(history []Operation, attempt func([]Operation) bool) {
	without := func(leaveOut func(other *Operation) bool) {
		var smaller []Operation
		for at := range history {
			if !leaveOut(&history[at]) {
				smaller = append(smaller, history[at])
			}
		}
		if attempt(smaller) {
			history = smaller
		}
	}
	for _, operation := range history {
		switch operation.Lock.Op {
		case "acquire":
			without(func(other *Operation) bool { return other.Lock.Fencing == operation.Lock.Fencing })
		case "renew":
			without(func(other *Operation) bool { return other.Lock == operation.Lock })
		}
	}
}
