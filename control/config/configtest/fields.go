// Package configtest helps tests to notice a field of a configuration that some part of
// the way from the API to the engine forgets.
//
// [Fields] of a type are values of it, by field, in which only that field says something.
// They are found by reflection, so that a new field has its value at once, and the test
// of each place that does not handle it fails and names it.
package configtest

import (
	"fmt"
	"reflect"
	"time"
)

// Fields returns, for each exported field of T, a T in which that field is not zero, and
// all others are. The fields of a field that is a struct count by themselves: Queue.MaxWait.
// Pointers are left out: they are notes about a value, not parts.
func Fields[T any]() map[string]T {
	out := map[string]T{}
	each(reflect.TypeFor[T](), "", func(name string, path []int) {
		var v T
		set(reflect.ValueOf(&v).Elem().FieldByIndex(path))
		out[name] = v
	})
	return out
}

func each(t reflect.Type, prefix string, visit func(name string, path []int)) {
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case !f.IsExported() || f.Type.Kind() == reflect.Pointer:
		case f.Type.Kind() == reflect.Struct:
			each(f.Type, prefix+f.Name+".", func(name string, path []int) { visit(name, append([]int{i}, path...)) })
		default:
			visit(prefix+f.Name, []int{i})
		}
	}
}

// set makes a value that is not zero, and valid in each field of a configuration.
func set(v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Duration]() {
		v.SetInt(int64(2 * time.Second))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			set(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		set(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		set(key)
		set(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("some")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(2)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Uint64:
		v.SetUint(3)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Pointer: // see Fields
	default:
		panic(fmt.Sprintf("configtest: a field of kind %s: want a value for it here", v.Kind()))
	}
}
