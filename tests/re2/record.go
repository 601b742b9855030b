// Asks Go's regexp what is asked in recorded.json, and writes down its answers:
//
//	go run tests/re2/record.go tests/re2/recorded.json
//
// For every pattern there are texts, and for every text all that is found in it; or the error, if it is no pattern. To
// ask more, add a pattern with texts and empty lists. Take the Go that Kubernetes is built with.
package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	content, err := os.ReadFile(os.Args[1])
	check(err)
	var asked map[string]any
	check(json.Unmarshal(content, &asked))
	var lines []string
	for pattern, texts := range asked {
		lines = append(lines, encoded(pattern)+": "+encoded(answer(pattern, texts)))
	}
	slices.Sort(lines)
	check(os.WriteFile(os.Args[1], []byte("{\n"+strings.Join(lines, ",\n")+"\n}\n"), 0o644))
}

func encoded(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	check(encoder.Encode(value))
	return strings.TrimSpace(out.String())
}

func answer(pattern string, texts any) any {
	regex, err := regexp.Compile(pattern)
	if err != nil {
		return err.Error()
	}
	found := map[string][]string{}
	if texts, ok := texts.(map[string]any); ok {
		for text := range texts {
			found[text] = append([]string{}, regex.FindAllString(text, -1)...)
		}
	}
	return found
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
