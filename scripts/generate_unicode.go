// Writes what Go knows of Unicode, for levelset.re2 has the classes and the folding of Go's regexp:
//
//	go run scripts/generate_unicode.go > src/levelset/re2/data/unicode.json
//
// Take the Go that Kubernetes is built with. Categories of one letter and LC follow from the others.
package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

func main() {
	text, err := json.MarshalIndent(map[string]any{
		"version":    unicode.Version,
		"categories": tables(unicode.Categories, func(name string) bool { return len(name) == 2 && name != "LC" }),
		"scripts":    tables(unicode.Scripts, func(string) bool { return true }),
		"aliases":    unicode.CategoryAliases,
		"folds":      folds(),
	}, "", " ")
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

func tables(all map[string]*unicode.RangeTable, wanted func(string) bool) map[string]string {
	found := map[string]string{}
	for name, table := range all {
		if wanted(name) {
			found[name] = spans(table)
		}
	}
	return found
}

// spans gives the ranges of a table, as hexadecimal numbers: "41-5a aa b5".
func spans(table *unicode.RangeTable) string {
	var parts []string
	for first := rune(0); first <= unicode.MaxRune; first++ {
		if !unicode.Is(table, first) {
			continue
		}
		last := first
		for last < unicode.MaxRune && unicode.Is(table, last+1) {
			last++
		}
		if first == last {
			parts = append(parts, fmt.Sprintf("%x", first))
		} else {
			parts = append(parts, fmt.Sprintf("%x-%x", first, last))
		}
		first = last
	}
	return strings.Join(parts, " ")
}

// folds gives the characters that differ in case only, each family once: "41,61 4b,6b,212a".
func folds() string {
	var families []string
	for first := rune(0); first <= unicode.MaxRune; first++ {
		family := []rune{first}
		for other := unicode.SimpleFold(first); other != first; other = unicode.SimpleFold(other) {
			family = append(family, other)
		}
		if len(family) == 1 || slices.Min(family) != first {
			continue
		}
		var members []string
		for _, one := range family {
			members = append(members, fmt.Sprintf("%x", one))
		}
		families = append(families, strings.Join(members, ","))
	}
	return strings.Join(families, " ")
}
