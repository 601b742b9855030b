// Reads histories of one object as JSON from the standard input, and writes whether porcupine finds each linearizable.
package main

import (
	"encoding/json"
	"math"
	"os"

	"github.com/anishathalye/porcupine"
)

// The fields of tests/robustness/linearizability.py: Operation.
type operation struct {
	Verb     string  `json:"verb"`
	Called   int64   `json:"called"`
	Returned int64   `json:"returned"`
	Outcome  string  `json:"outcome"`
	Value    *string `json:"value"`
	Expected *int    `json:"expected"`
	Revision *int    `json:"revision"`
}

type object struct {
	exists   bool
	value    string
	revision int // 0: not known
	floor    int
}

func apply(before object, op operation) []interface{} {
	if op.Verb == "get" && op.Outcome == "unknown" {
		return one(before)
	}
	switch op.Outcome {
	case "absent":
		if !before.exists {
			return one(before)
		}
		return nil
	case "conflict":
		if before.exists && (op.Verb == "create" || before.revision == 0 || op.Expected == nil || before.revision != *op.Expected) {
			return one(before)
		}
		return nil
	case "unknown":
		return append(one(before), write(before, op)...)
	}
	if op.Verb != "get" {
		return write(before, op)
	}
	if !before.exists || op.Value == nil || *op.Value != before.value || op.Revision == nil {
		return nil
	}
	return at(before, *op.Revision)
}

func write(before object, op operation) []interface{} {
	if before.exists == (op.Verb == "create") {
		return nil
	}
	if op.Expected != nil {
		known := at(before, *op.Expected)
		if known == nil {
			return nil
		}
		before = known[0].(object)
	}
	if op.Verb == "delete" {
		return one(object{floor: before.floor})
	}
	after := object{exists: true, floor: before.floor}
	if op.Value != nil {
		after.value = *op.Value
	}
	if op.Revision != nil {
		if *op.Revision <= before.floor {
			return nil
		}
		after.revision, after.floor = *op.Revision, *op.Revision
	}
	return one(after)
}

func at(before object, revision int) []interface{} {
	if before.exists && before.revision == 0 && revision > before.floor {
		before.revision, before.floor = revision, revision
	}
	if !before.exists || before.revision != revision {
		return nil
	}
	return one(before)
}

func one(state object) []interface{} { return []interface{}{state} }

func main() {
	var histories [][]operation
	if err := json.NewDecoder(os.Stdin).Decode(&histories); err != nil {
		panic(err)
	}
	model := porcupine.NondeterministicModel{
		Init: func() []interface{} { return one(object{}) },
		Step: func(state, input, _ interface{}) []interface{} {
			return apply(state.(object), input.(operation))
		},
		Equal: func(a, b interface{}) bool { return a == b },
	}
	verdicts := []bool{}
	for _, history := range histories {
		operations := []porcupine.Operation{}
		for number, op := range history {
			returned := op.Returned
			if op.Outcome == "unknown" {
				returned = math.MaxInt64
			}
			operations = append(operations, porcupine.Operation{ClientId: number, Input: op, Call: op.Called, Return: returned})
		}
		verdicts = append(verdicts, porcupine.CheckOperations(model.ToModel(), operations))
	}
	if err := json.NewEncoder(os.Stdout).Encode(verdicts); err != nil {
		panic(err)
	}
}
