// Writes what kube-apiserver estimates that the rules of schemas cost, for `scripts/corpus_costs.py`, which builds it.
//
// Reads a JSON object with the members Key and Schema for each schema, and writes one with Key and Costs: by the path of
// a rule or messageExpression its cost, without those that are refused.
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

type schema = apiextensions.JSONSchemaProps

var base = environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())

func main() {
	input, output := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for input.More() {
		var given struct {
			Key    string
			Schema v1.JSONSchemaProps
		}
		check(input.Decode(&given))
		var root schema
		check(v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&given.Schema, &root, nil))
		costs := map[string]uint64{}
		visit(validation.RootCELContext(&root), &root, "", costs)
		check(output.Encode(map[string]any{"Key": given.Key, "Costs": costs}))
	}
}

func visit(context *validation.CELSchemaContext, node *schema, path string, costs map[string]uint64) {
	if len(node.XValidations) > 0 {
		estimate(context, node, path+".x-kubernetes-validations", costs)
	}
	for name, child := range node.Properties {
		visit(context.ChildPropertyContext(&child, name), &child, fmt.Sprintf("%s.properties[%s]", path, name), costs)
	}
	if node.Items != nil && node.Items.Schema != nil {
		child := node.Items.Schema
		visit(context.ChildItemsContext(child), child, path+".items", costs)
	}
	if node.AdditionalProperties != nil && node.AdditionalProperties.Schema != nil {
		child := node.AdditionalProperties.Schema
		visit(context.ChildAdditionalPropertiesContext(child), child, path+".additionalProperties", costs)
	}
}

func estimate(context *validation.CELSchemaContext, node *schema, path string, costs map[string]uint64) {
	info, err := context.TypeInfo()
	check(err)
	results, err := cel.Compile(info.Schema, info.DeclType, celconfig.PerCallLimit, base, cel.NewExpressionsEnvLoader())
	check(err)
	for index, result := range results {
		if result.Error != nil {
			continue
		}
		times := result.MaxCardinality
		if context.MaxCardinality != nil {
			times = *context.MaxCardinality
		}
		high, low := bits.Mul64(result.MaxCost, times)
		if high > 0 {
			low = math.MaxUint64
		}
		costs[fmt.Sprintf("%s[%d].rule", path, index)] = low
		if node.XValidations[index].MessageExpression != "" && result.MessageExpressionError == nil {
			costs[fmt.Sprintf("%s[%d].messageExpression", path, index)] = result.MessageExpressionMaxCost
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
