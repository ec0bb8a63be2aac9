package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sort"
	"strings"
)

// The outcome of an operation.
const (
	committed = "committed"
	// rejected means that the conditions did not all hold at one moment of the call.
	rejected = "rejected"
	// unknown means that the operation took effect at any moment after its call, or not at all.
	unknown = "unknown"
)

// forever is the time of return of an operation without one.
const forever = int64(math.MaxInt64)

// An Operation is one line of a file of histories: what was called, and what was returned. It is about cells of a partition, a lock, or a
// latch, and so are all operations of its history.
//
// A cell is named ROW/FAMILY:QUALIFIER. A scope is a cell, a family ROW/FAMILY:, a row ROW/, or the whole partition, which is the empty
// text.
type Operation struct {
	// History names the partition, the lock or the latch. Each one is checked alone.
	History string `json:"history"`
	Client  int    `json:"client"`
	// Call and Return are places in the order of all calls and returns of the run.
	Call   int64  `json:"call"`
	Return *int64 `json:"return"`
	// What describes the operation for people.
	What    string      `json:"what"`
	Outcome string      `json:"outcome"`
	Reads   []Read      `json:"reads,omitempty"`
	If      []Condition `json:"if,omitempty"`
	Do      []Mutation  `json:"do,omitempty"`
	// relaxed is set when a reduction has found that it does not matter when this happened.
	relaxed bool
	// Results are the values of cells right after the operation.
	Results map[string]string `json:"results,omitempty"`
	Lock    *LockStep         `json:"lock,omitempty"`
	Latch   *LatchStep        `json:"latch,omitempty"`
}

// A Read says that a scope has exactly these cells.
type Read struct {
	In    string            `json:"in"`
	Found map[string]string `json:"found"`
}

// A Condition is about the value of one cell.
type Condition struct {
	Cell  string `json:"cell"`
	Is    string `json:"is"`
	Value string `json:"value,omitempty"`
}

// A Mutation changes one cell, or deletes a scope.
type Mutation struct {
	Op    string `json:"op"`
	In    string `json:"in"`
	Value string `json:"value,omitempty"`
	By    int64  `json:"by,omitempty"`
}

// covers reports whether a cell is in a scope.
func covers(scope, cell string) bool {
	return scope == cell ||
		(scope == "" || strings.HasSuffix(scope, "/") || strings.HasSuffix(scope, ":")) && strings.HasPrefix(cell, scope)
}

func (o *Operation) returned() int64 {
	if o.Return == nil || o.Outcome == unknown {
		return forever
	}
	return *o.Return
}

// changes reports whether the operation may have had an effect.
func (o *Operation) changes() bool {
	return len(o.Do) > 0 && o.Outcome != rejected || o.Latch != nil && o.Latch.changes()
}

// readHistories returns the operations of each history, in the order of their calls, and the names in the order of the file.
func readHistories(from io.Reader) ([]string, map[string][]Operation, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 64<<20)
	var names []string
	histories := map[string][]Operation{}
	for number := 1; lines.Scan(); number++ {
		var operation Operation
		if err := json.Unmarshal(lines.Bytes(), &operation); err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", number, err)
		}
		if err := operation.validate(); err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", number, err)
		}
		if _, found := histories[operation.History]; !found {
			names = append(names, operation.History)
		}
		histories[operation.History] = append(histories[operation.History], operation)
	}
	for name, history := range histories {
		for at := range history {
			if (history[at].Lock == nil) != (history[0].Lock == nil) || (history[at].Latch == nil) != (history[0].Latch == nil) {
				return nil, nil, fmt.Errorf("%s: operations on different kinds of objects", name)
			}
		}
		sort.SliceStable(history, func(i, j int) bool { return history[i].Call < history[j].Call })
	}
	return names, histories, lines.Err()
}

// validate refuses what the model would misunderstand.
func (o *Operation) validate() error {
	switch o.Outcome {
	case committed, rejected:
		if o.Return == nil {
			return fmt.Errorf("%s without a return", o.Outcome)
		}
	case unknown:
	default:
		return fmt.Errorf("unknown outcome %q", o.Outcome)
	}
	if o.Lock != nil {
		return o.Lock.validate()
	}
	if o.Latch != nil {
		return o.Latch.validate()
	}
	for _, condition := range o.If {
		if _, err := condition.holds("", false); err != nil {
			return err
		}
	}
	for _, mutation := range o.Do {
		switch mutation.Op {
		case "put", "append", "increment", "delete":
		default:
			return fmt.Errorf("unknown mutation %q", mutation.Op)
		}
	}
	return nil
}

// holds reports whether the condition holds for a value. An absent cell has none.
func (c *Condition) holds(value string, present bool) (bool, error) {
	switch c.Is {
	case "absent":
		return !present, nil
	case "present":
		return present, nil
	case "equal":
		return present && value == c.Value, nil
	case "not_equal":
		return !present || value != c.Value, nil
	case "less":
		return present && value < c.Value, nil
	case "less_or_equal":
		return present && value <= c.Value, nil
	case "greater":
		return present && value > c.Value, nil
	case "greater_or_equal":
		return present && value >= c.Value, nil
	case "begins_with":
		return present && strings.HasPrefix(value, c.Value), nil
	}
	return false, fmt.Errorf("unknown condition %q", c.Is)
}

// String describes the operation in one line.
func (o *Operation) String() string {
	end, outcome := "open", o.Outcome
	if o.returned() != forever {
		end = fmt.Sprint(o.returned())
	}
	if o.relaxed {
		outcome = "at any moment"
	}
	var parts []string
	for _, read := range o.Reads {
		parts = append(parts, fmt.Sprintf("reads %s: %s", scopeName(read.In), cells(read.Found)))
	}
	for _, condition := range o.If {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("if %s %s %s", condition.Cell, condition.Is, condition.Value)))
	}
	for _, mutation := range o.Do {
		text := mutation.Op + " " + scopeName(mutation.In)
		switch mutation.Op {
		case "put", "append":
			text += " = " + mutation.Value
		case "increment":
			text += fmt.Sprintf(" + %d", mutation.By)
		}
		parts = append(parts, text)
	}
	if len(o.Results) > 0 {
		parts = append(parts, "results "+cells(o.Results))
	}
	if o.Lock != nil {
		parts = append(parts, o.Lock.String())
	}
	if o.Latch != nil {
		parts = append(parts, o.Latch.String())
	}
	return fmt.Sprintf("%6d..%-6s client %d, %s: %s: %s", o.Call, end, o.Client, o.What, strings.Join(parts, "; "), outcome)
}

func scopeName(scope string) string {
	if scope == "" {
		return "partition"
	}
	return scope
}

func cells(found map[string]string) string {
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	sort.Strings(names)
	for at, name := range names {
		names[at] = name + " = " + found[name]
	}
	return "{" + strings.Join(names, ", ") + "}"
}
