package main

import (
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// stepTimeout limits each check of a reduction. What can't be decided in it is kept.
const stepTimeout = 2 * time.Second

func isIllegal(history []Operation, timeout time.Duration) bool {
	result, _ := check(history, timeout, "")
	return result == porcupine.Illegal
}

// reduce returns a smaller illegal history: the shortest prefix, the fewest cells, the fewest operations. Each step only takes knowledge
// away, so that the result shows a violation of the original.
func reduce(history []Operation, deadline time.Time) []Operation {
	timeLeft := func() time.Duration {
		left := time.Until(deadline)
		if left > stepTimeout {
			return stepTimeout
		}
		if left < time.Millisecond {
			// No time at all would be no limit.
			return time.Millisecond
		}
		return left
	}
	attempt := func(smaller []Operation) bool {
		if time.Now().Before(deadline) && isIllegal(smaller, timeLeft()) {
			history = smaller
			return true
		}
		return false
	}
	if len(history) > 0 && history[0].Lock != nil {
		reduceLock(history, attempt)
		return history
	}
	if len(history) > 0 && history[0].Latch != nil {
		attempt(shortestPrefix(history, timeLeft))
		reduceLatch(history, attempt)
		return history
	}
	// Most violations are of one cell, or of one row.
	for _, scope := range scopes(history) {
		if attempt(project(history, func(cell string) bool { return covers(scope, cell) })) {
			break
		}
	}
	attempt(shortestPrefix(history, timeLeft))
	for _, cell := range cellsOf(history) {
		attempt(project(history, func(other string) bool { return other != cell }))
	}
	for at := len(history) - 1; at >= 0; at-- {
		if at >= len(history) {
			continue
		}
		without := append(append([]Operation(nil), history[:at]...), history[at+1:]...)
		if !history[at].changes() {
			attempt(without)
			continue
		}
		if history[at].Outcome != unknown {
			relaxed := append([]Operation(nil), history...)
			relaxed[at].Outcome = unknown
			relaxed[at].Results = nil
			relaxed[at].relaxed = true
			attempt(relaxed)
		}
		// An open operation explains nothing if what is left never names what it leaves.
		if history[at].Outcome == unknown && !explains(&history[at], without) {
			attempt(without)
		}
	}
	attempt(shortestPrefix(history, timeLeft))
	return history
}

// explains reports whether what an operation writes or deletes may be what another one finds.
func explains(operation *Operation, others []Operation) bool {
	for _, mutation := range operation.Do {
		for at := range others {
			other := &others[at]
			for _, read := range other.Reads {
				for cell, value := range read.Found {
					if mutation.Op != "delete" && cell == mutation.In && derives(value, &mutation) {
						return true
					}
				}
				if mutation.Op == "delete" && (covers(read.In, mutation.In) || covers(mutation.In, read.In)) {
					return true
				}
			}
			for _, condition := range other.If {
				if covers(mutation.In, condition.Cell) {
					return true
				}
			}
			for cell := range other.Results {
				if covers(mutation.In, cell) {
					return true
				}
			}
		}
	}
	return false
}

// withoutUnseen returns the history without the operations with unknown outcomes of which nothing was read. If it is legal, so is the whole:
// these had no effect.
func withoutUnseen(history []Operation) []Operation {
	var found []Operation
	for at := range history {
		if history[at].Outcome != unknown || isSeen(&history[at], history) {
			found = append(found, history[at])
		}
	}
	return found
}

// isSeen reports whether a read may have found what an operation wrote.
func isSeen(operation *Operation, history []Operation) bool {
	for at := range operation.Do {
		mutation := &operation.Do[at]
		if mutation.Op == "delete" {
			continue
		}
		for other := range history {
			for _, read := range history[other].Reads {
				if value, found := read.Found[mutation.In]; found && derives(value, mutation) {
					return true
				}
			}
			if value, found := history[other].Results[mutation.In]; found && derives(value, mutation) {
				return true
			}
		}
	}
	return false
}

// derives reports whether a value may be what a mutation left, or what later increments or appends made of it.
func derives(value string, mutation *Mutation) bool {
	if _, err := strconv.ParseInt(value, 10, 64); err == nil {
		return true
	}
	if mutation.Op == "put" {
		return strings.HasPrefix(value, mutation.Value)
	}
	return strings.Contains(value, mutation.Value)
}

// scopes returns all cells, then all rows.
func scopes(history []Operation) []string {
	cells := cellsOf(history)
	rows := map[string]bool{}
	for _, cell := range cells {
		for at := range cell {
			if cell[at] == '/' {
				rows[cell[:at+1]] = true
				break
			}
		}
	}
	var found []string
	for row := range rows {
		found = append(found, row)
	}
	sort.Strings(found)
	return append(cells, found...)
}

func cellsOf(history []Operation) []string {
	return compile(history).names
}

// project returns the history of some cells: what is known of others, and operations that are only about others, are left out.
func project(history []Operation, keep func(cell string) bool) []Operation {
	all := cellsOf(history)
	var projected []Operation
	for _, operation := range history {
		operation.Reads = projectReads(operation.Reads, all, keep)
		var conditions []Condition
		for _, condition := range operation.If {
			if keep(condition.Cell) {
				conditions = append(conditions, condition)
			}
		}
		if operation.Outcome == rejected && len(conditions) < len(operation.If) {
			// It was perhaps rejected for a condition that is left out.
			operation.Outcome, operation.Do, conditions = committed, nil, nil
		}
		operation.If = conditions
		operation.Do = projectMutations(operation.Do, all, keep)
		results := map[string]string{}
		for cell, value := range operation.Results {
			if keep(cell) {
				results[cell] = value
			}
		}
		operation.Results = results
		if len(operation.Reads)+len(operation.If)+len(operation.Do)+len(results) > 0 {
			projected = append(projected, operation)
		}
	}
	return projected
}

func projectReads(reads []Read, all []string, keep func(cell string) bool) []Read {
	var projected []Read
	for _, read := range reads {
		for _, cell := range all {
			if covers(read.In, cell) && keep(cell) {
				found := map[string]string{}
				if value, isThere := read.Found[cell]; isThere {
					found[cell] = value
				}
				projected = append(projected, Read{In: cell, Found: found})
			}
		}
	}
	return projected
}

func projectMutations(mutations []Mutation, all []string, keep func(cell string) bool) []Mutation {
	var projected []Mutation
	for _, mutation := range mutations {
		for _, cell := range all {
			if covers(mutation.In, cell) && keep(cell) {
				projected = append(projected, mutation)
				break
			}
		}
	}
	return projected
}

// shortestPrefix returns the operations until the return with which the history becomes illegal. Calls that had not returned by then
// stay open.
func shortestPrefix(history []Operation, timeLeft func() time.Duration) []Operation {
	var ends []int64
	for at := range history {
		if end := history[at].returned(); end != forever {
			ends = append(ends, end)
		}
	}
	sort.Slice(ends, func(i, j int) bool { return ends[i] < ends[j] })
	place := sort.Search(len(ends), func(place int) bool {
		return isIllegal(prefix(history, ends[place]), timeLeft())
	})
	if place == len(ends) {
		return history
	}
	return prefix(history, ends[place])
}

func prefix(history []Operation, end int64) []Operation {
	var found []Operation
	for _, operation := range history {
		if operation.Call > end {
			continue
		}
		if operation.returned() > end {
			if !operation.changes() {
				continue
			}
			operation.Outcome, operation.Results = unknown, nil
		}
		found = append(found, operation)
	}
	return found
}
