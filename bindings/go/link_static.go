//go:build gowk_static

package gowk

// #cgo pkg-config: gowk-static
import "C"
