//go:build !gowk_static

package gowk

// #cgo pkg-config: gowk
import "C"
