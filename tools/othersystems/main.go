// Othersystems type-checks the packages of modules, with their tests, for macOS and Windows. It reads dependencies from source, without the bodies of
// their functions. go vet takes four times as long, because it compiles them for each system.
//
//	othersystems DIRECTORY…
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	log.SetFlags(0)
	own, err := filepath.Abs(".")
	if err != nil {
		log.Fatal(err)
	}
	failed := false
	for _, system := range []string{"darwin", "windows"} {
		for _, module := range os.Args[1:] {
			found, err := check(system, module, own+string(filepath.Separator))
			if err != nil {
				log.Fatalf("%s on %s: %v", module, system, err)
			}
			for _, e := range found {
				log.Printf("on %s: %v", system, e)
				failed = true
			}
		}
	}
	if failed {
		os.Exit(1)
	}
	fmt.Println("darwin, windows: 0 issues.")
}

// check returns what is wrong in the files of a module that are in the directory own.
func check(system, module, own string) (found []packages.Error, err error) {
	checked, err := packages.Load(&packages.Config{
		Mode:  packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo,
		Dir:   module,
		Env:   append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system),
		Tests: true,
		ParseFile: func(files *token.FileSet, name string, text []byte) (*ast.File, error) {
			file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
			if file != nil && !strings.HasPrefix(name, own) {
				for _, d := range file.Decls {
					if f, ok := d.(*ast.FuncDecl); ok {
						f.Body = nil
					}
				}
			}
			return file, err
		},
	}, "./...")
	for _, p := range checked {
		for _, e := range p.Errors {
			if e.Kind != packages.TypeError || strings.HasPrefix(e.Pos, own) { // in other files imports seem unused
				found = append(found, e)
			}
		}
	}
	return found, err
}
