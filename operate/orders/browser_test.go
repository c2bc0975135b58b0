package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// browser is a Chromium without windows, which a test drives through pipes.
type browser struct {
	to     *os.File
	mutex  sync.Mutex
	last   int
	calls  map[int]chan message
	tabs   map[string]*tab // by session
	closed chan struct{}   // when it has ended
}

// message is what goes through the pipes, each with a zero byte after it.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *failed         `json:"error,omitempty"`
}

type failed struct {
	Message string `json:"message"`
}

// tab is a page in a browser, with cookies of its own.
type tab struct {
	*browser
	t       *testing.T
	session string
	loads   chan struct{} // when a page has been loaded
	mutex   sync.Mutex
	faults  []string // what the browser has complained of
}

// programs are the names of the browser, the smallest first.
var programs = []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"}

func openBrowser(t *testing.T) *browser {
	t.Helper()
	program := ""
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Fatal("no Chromium is installed: make browser installs it")
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	theirsOut, oursOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-background-networking",
		"--disable-dev-shm-usage", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles, cmd.Stderr = []*os.File{theirsOut, theirs}, &log // its file descriptors 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	theirsOut.Close()
	b := &browser{to: oursOut, calls: map[int]chan message{}, tabs: map[string]*tab{}, closed: make(chan struct{})}
	go b.read(ours)
	t.Cleanup(func() {
		oursOut.Close() // then it ends
		<-b.closed
		_ = cmd.Wait() // its status says nothing
		if t.Failed() {
			t.Logf("%s", &log)
		}
	})
	return b
}

// read hands over what the browser answers and tells.
func (b *browser) read(from *os.File) {
	defer close(b.closed)
	defer from.Close()
	r := bufio.NewReader(from)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		var raw struct{ Params json.RawMessage }
		if json.Unmarshal(text[:len(text)-1], &m) != nil || json.Unmarshal(text[:len(text)-1], &raw) != nil {
			continue
		}
		b.mutex.Lock()
		answer, tab := b.calls[m.ID], b.tabs[m.Session]
		delete(b.calls, m.ID)
		b.mutex.Unlock()
		switch {
		case m.ID > 0 && answer != nil:
			answer <- m
		case tab != nil:
			tab.event(m.Method, raw.Params)
		}
	}
}

func (p *tab) event(method string, params json.RawMessage) {
	switch method {
	case "Page.loadEventFired":
		select {
		case p.loads <- struct{}{}:
		default:
		}
	case "Runtime.exceptionThrown", "Log.entryAdded":
		if method == "Log.entryAdded" && !bytes.Contains(params, []byte(`"level":"error"`)) || bytes.Contains(params, []byte("status of 401")) {
			return // the page with the login has this status
		}
		p.mutex.Lock()
		p.faults = append(p.faults, string(params))
		p.mutex.Unlock()
	}
}

func (b *browser) call(ctx context.Context, session, method string, params, result any) error {
	answer := make(chan message, 1)
	b.mutex.Lock()
	b.last++
	m := message{ID: b.last, Session: session, Method: method, Params: params}
	b.calls[m.ID] = answer
	text, err := json.Marshal(m)
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	b.mutex.Unlock()
	if err != nil {
		return err
	}
	select {
	case m = <-answer:
	case <-b.closed:
		return errors.New("the browser has ended")
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
	if m.Error != nil {
		return fmt.Errorf("%s: %s", method, m.Error.Message)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(m.Result, result)
}

type parameters map[string]any

// open opens a tab. Without scripts its pages run none.
func (b *browser) open(t *testing.T, scripts bool) *tab {
	t.Helper()
	p := &tab{browser: b, t: t, loads: make(chan struct{}, 100)}
	var made struct{ BrowserContextID, TargetID, SessionID string }
	err := b.call(t.Context(), "", "Target.createBrowserContext", parameters{}, &made)
	if err == nil {
		err = b.call(t.Context(), "", "Target.createTarget", parameters{"url": "about:blank", "browserContextId": made.BrowserContextID}, &made)
	}
	if err == nil {
		err = b.call(t.Context(), "", "Target.attachToTarget", parameters{"targetId": made.TargetID, "flatten": true}, &made)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.session = made.SessionID
	b.mutex.Lock()
	b.tabs[p.session] = p
	b.mutex.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		p.do(domain+".enable", parameters{}, nil)
	}
	p.do("Emulation.setScriptExecutionDisabled", parameters{"value": !scripts}, nil)
	if err := b.call(t.Context(), "", "Browser.grantPermissions", parameters{"permissions": []string{"clipboardReadWrite", "clipboardSanitizedWrite"}, "browserContextId": made.BrowserContextID}, nil); err != nil {
		t.Fatal(err)
	}
	p.size(1100, 800, false)
	t.Cleanup(func() {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		for _, f := range p.faults {
			t.Errorf("the browser complains: %s", f)
		}
	})
	return p
}

// do sends a command of the debugging protocol.
func (p *tab) do(method string, params, result any) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	if err := p.call(ctx, p.session, method, params, result); err != nil {
		p.t.Fatal(err)
	}
}

func (p *tab) size(width, height int, dark bool) {
	p.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	p.do("Emulation.setDeviceMetricsOverride", parameters{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	p.do("Emulation.setEmulatedMedia", parameters{"features": []parameters{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// goTo opens an address and waits until it has been loaded.
func (p *tab) goTo(address string) {
	p.t.Helper()
	p.loading(func() { p.do("Page.navigate", parameters{"url": address}, nil) })
}

// loading calls begin, which has the browser load a page, and waits for that.
func (p *tab) loading(begin func()) {
	p.t.Helper()
	for len(p.loads) > 0 {
		<-p.loads
	}
	begin()
	select {
	case <-p.loads:
	case <-time.After(30 * time.Second):
		p.t.Fatal("no page was loaded")
	}
}

// evaluate returns the value of an expression on the page, awaited if it is a promise.
func (p *tab) evaluate(expression string) (string, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	err := p.call(ctx, p.session, "Runtime.evaluate", parameters{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true}, &r)
	if err == nil && r.ExceptionDetails != nil {
		err = fmt.Errorf("%s: %s", expression, r.ExceptionDetails)
	}
	return fmt.Sprint(r.Result.Value), err
}

// get is evaluate for what must work.
func (p *tab) get(expression string) string {
	p.t.Helper()
	v, err := p.evaluate(expression)
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

// click clicks the element that a CSS selector chooses and waits until a page has been loaded.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.loading(func() { p.get(fmt.Sprintf("document.querySelector(%q).click()", selector)) })
}

// wait waits until an expression on the page is true. It needs scripts.
func (p *tab) wait(condition string) {
	p.t.Helper()
	var last error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		v, err := p.evaluate(fmt.Sprintf(`new Promise((done) => { const look = (n) => (%s) ? done(true) : n ? setTimeout(look, 20, n - 1) : done(false); look(100); })`, condition))
		if err == nil && v == "true" {
			return
		}
		last = err // also when the page was left meanwhile
	}
	p.t.Fatalf("%s is never true: %v\n%s", condition, last, p.text())
}

// text is what the page shows.
func (p *tab) text() string {
	p.t.Helper()
	return p.get("document.body.innerText")
}

// shows demands texts.
func (p *tab) shows(texts ...string) {
	p.t.Helper()
	shown := p.text()
	for _, text := range texts {
		if !strings.Contains(shown, text) {
			p.t.Errorf("%s does not show %q but\n%s", p.get("location.href"), text, shown)
		}
	}
}

// picture is the page as a PNG.
func (p *tab) picture() []byte {
	p.t.Helper()
	var shot struct{ Data string }
	p.do("Page.captureScreenshot", parameters{"format": "png"}, &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		p.t.Fatal(err)
	}
	return picture
}
