package main

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// A partition holds the value of each cell by its number; 0 is an absent cell. It is never changed.
type partition struct {
	values []int32
	hash   uint64
}

// A compiled history has numbers for cells and values.
type compiled struct {
	cells  map[string]int
	names  []string
	values map[string]int32
	texts  []string
}

// An input is a compiled operation.
type input struct {
	operation *Operation
	reads     []readInput
	do        []mutationInput
	checks    []checkInput
	results   []expected
}

type readInput struct {
	cells []int
	found []int32
}

type checkInput struct {
	cell      int
	condition *Condition
}

type mutationInput struct {
	cells    []int
	mutation *Mutation
	value    int32
}

type expected struct {
	cell  int
	value int32
}

// compile numbers the cells and values of a history.
func compile(history []Operation) *compiled {
	c := &compiled{cells: map[string]int{}, values: map[string]int32{}, texts: []string{""}}
	add := func(cell string) {
		if cell == "" || strings.HasSuffix(cell, "/") || strings.HasSuffix(cell, ":") {
			return
		}
		if _, found := c.cells[cell]; !found {
			c.cells[cell] = 0
			c.names = append(c.names, cell)
		}
	}
	for at := range history {
		operation := &history[at]
		for _, read := range operation.Reads {
			add(read.In)
			for cell := range read.Found {
				add(cell)
			}
		}
		for _, condition := range operation.If {
			add(condition.Cell)
		}
		for _, mutation := range operation.Do {
			add(mutation.In)
		}
		for cell := range operation.Results {
			add(cell)
		}
	}
	sort.Strings(c.names)
	for number, name := range c.names {
		c.cells[name] = number
	}
	return c
}

func (c *compiled) value(text string) int32 {
	number, found := c.values[text]
	if !found {
		number = int32(len(c.texts))
		c.values[text] = number
		c.texts = append(c.texts, text)
	}
	return number
}

func (c *compiled) scope(scope string) []int {
	var found []int
	for number, name := range c.names {
		if covers(scope, name) {
			found = append(found, number)
		}
	}
	return found
}

func (c *compiled) input(operation *Operation) *input {
	in := &input{operation: operation}
	for _, read := range operation.Reads {
		compiledRead := readInput{cells: c.scope(read.In)}
		for _, cell := range compiledRead.cells {
			number := int32(0)
			if text, found := read.Found[c.names[cell]]; found {
				number = c.value(text)
			}
			compiledRead.found = append(compiledRead.found, number)
		}
		in.reads = append(in.reads, compiledRead)
	}
	for at := range operation.If {
		in.checks = append(in.checks, checkInput{c.cells[operation.If[at].Cell], &operation.If[at]})
	}
	for at := range operation.Do {
		mutation := &operation.Do[at]
		compiledMutation := mutationInput{cells: c.scope(mutation.In), mutation: mutation}
		if mutation.Op == "put" {
			compiledMutation.value = c.value(mutation.Value)
		}
		in.do = append(in.do, compiledMutation)
	}
	for cell, text := range operation.Results {
		in.results = append(in.results, expected{c.cells[cell], c.value(text)})
	}
	return in
}

// holds reports whether all reads and conditions hold.
func (c *compiled) holds(in *input, state *partition) bool {
	return c.agrees(in, state) && c.conditionsHold(in, state)
}

func (c *compiled) agrees(in *input, state *partition) bool {
	for at := range in.reads {
		read := &in.reads[at]
		for place, cell := range read.cells {
			if state.values[cell] != read.found[place] {
				return false
			}
		}
	}
	return true
}

func (c *compiled) conditionsHold(in *input, state *partition) bool {
	for _, check := range in.checks {
		number := state.values[check.cell]
		// The reader of the history has refused conditions without a meaning.
		if holds, _ := check.condition.holds(c.texts[number], number != 0); !holds {
			return false
		}
	}
	return true
}

// apply returns the state after the changes, or nil if they have other results.
func (c *compiled) apply(in *input, state *partition) *partition {
	values := state.values
	if len(in.do) > 0 {
		values = append([]int32(nil), values...)
	}
	for at := range in.do {
		change := &in.do[at]
		for _, cell := range change.cells {
			old := c.texts[values[cell]]
			switch change.mutation.Op {
			case "put":
				values[cell] = change.value
			case "delete":
				values[cell] = 0
			case "append":
				values[cell] = c.value(old + change.mutation.Value)
			case "increment":
				number := int64(0)
				if values[cell] != 0 {
					var err error
					if number, err = strconv.ParseInt(old, 10, 64); err != nil {
						return nil
					}
				}
				values[cell] = c.value(strconv.FormatInt(number+change.mutation.By, 10))
			}
		}
	}
	for _, result := range in.results {
		if values[result.cell] != result.value {
			return nil
		}
	}
	if len(in.do) == 0 {
		return state
	}
	return newPartition(values)
}

func newPartition(values []int32) *partition {
	hash := uint64(14695981039346656037)
	for _, value := range values {
		hash = (hash ^ uint64(uint32(value))) * 1099511628211
	}
	return &partition{values, hash}
}

// step reports whether an operation may happen now, and returns the state after it.
//
// An operation with an unknown outcome returns at the end of time, after all reads. There it may happen whatever its conditions: so it
// need not have had an effect, and one step is enough for both cases.
func (c *compiled) step(state *partition, in *input) (bool, *partition) {
	switch in.operation.Outcome {
	case committed:
		if !c.holds(in, state) {
			return false, state
		}
		next := c.apply(in, state)
		return next != nil, next
	case rejected:
		return c.agrees(in, state) && !c.conditionsHold(in, state), state
	default:
		if !c.holds(in, state) {
			return true, state
		}
		if next := c.apply(in, state); next != nil {
			return true, next
		}
		return true, state
	}
}

func (c *compiled) model() porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return newPartition(make([]int32, len(c.names))) },
		Step: func(state, in, _ interface{}) (bool, interface{}) {
			return c.step(state.(*partition), in.(*input))
		},
		Equal: func(one, other interface{}) bool {
			a, b := one.(*partition), other.(*partition)
			if a == b {
				return true
			}
			if a.hash != b.hash {
				return false
			}
			for at, value := range a.values {
				if value != b.values[at] {
					return false
				}
			}
			return true
		},
		Hash: func(state interface{}) uint64 { return state.(*partition).hash },
		DescribeOperation: func(in, _ interface{}) string {
			return in.(*input).operation.String()
		},
		DescribeState: func(state interface{}) string {
			found := map[string]string{}
			for cell, value := range state.(*partition).values {
				if value != 0 {
					found[c.names[cell]] = c.texts[value]
				}
			}
			return cells(found)
		},
	}
}

// modelOf returns the model of the object of a history, and the input of each operation.
func modelOf(history []Operation) (porcupine.Model, func(operation *Operation) interface{}) {
	asIs := func(operation *Operation) interface{} { return operation }
	switch {
	case len(history) > 0 && history[0].Lock != nil:
		return modelOfObject(lock{}, func(state lock, operation *Operation) (bool, lock) {
			return operation.Lock.step(state)
		}), asIs
	case len(history) > 0 && history[0].Latch != nil:
		numbers := numberLatch(history)
		return modelOfObject(numbers.initial(), numbers.step), asIs
	}
	c := compile(history)
	return c.model(), func(operation *Operation) interface{} { return c.input(operation) }
}

// modelOfObject returns the model of a lock or a latch.
func modelOfObject[S comparable](initial S, step func(state S, operation *Operation) (bool, S)) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return initial },
		Step: func(state, in, _ interface{}) (bool, interface{}) {
			operation := in.(*Operation)
			may, next := step(state.(S), operation)
			if !may && operation.Outcome == unknown {
				// It has no effect.
				return true, state
			}
			return may, next
		},
		DescribeOperation: func(in, _ interface{}) string { return in.(*Operation).String() },
		DescribeState:     func(state interface{}) string { return fmt.Sprintf("%+v", state) },
	}
}

// check checks a history from an empty partition, a free lock, or an absent latch. If html is not empty, the file gets Porcupine's picture
// of the check.
func check(history []Operation, timeout time.Duration, html string) (porcupine.CheckResult, error) {
	model, input := modelOf(history)
	operations := make([]porcupine.Operation, len(history))
	for at := range history {
		operation := &history[at]
		operations[at] = porcupine.Operation{
			ClientId: operation.Client,
			Input:    input(operation),
			Call:     operation.Call,
			Return:   operation.returned(),
		}
	}
	if html == "" {
		return porcupine.CheckOperationsTimeout(model, operations, timeout), nil
	}
	result, info := porcupine.CheckOperationsVerbose(model, operations, timeout)
	if err := porcupine.VisualizePath(model, info, html); err != nil {
		return result, fmt.Errorf("cannot write %s: %w", html, err)
	}
	return result, nil
}
