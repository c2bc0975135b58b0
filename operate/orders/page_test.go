package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/examples/orders/order"
	"github.com/annals-go/annals/operate"
	"github.com/annals-go/annals/sqlitestore"
)

const token = "the token of this test"

// served is the page of the example, whose viewers may act. It returns the address and the store.
func served(t *testing.T) (string, annals.Store) {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), filled(t), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	page, err := operate.Handler(s, config, operate.PageOptions{Prefix: "/ops/", Token: token, Logger: slog.New(slog.DiscardHandler),
		Allow: func(*http.Request, operate.Action) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(page)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		s.Close()
	})
	return server.URL + "/ops/", s
}

// views are the views of the page, with what each shows.
var views = []struct {
	path  string
	shows []string
}{
	{"", []string{"Is all well?", "✗ No:", "sales: 1 parked", "0 of 2 ranges", "Order 2"}},
	{"entities", []string{"Order|1001", "Stock|pen"}},
	{"entities?search=1002", []string{"With this id", "Order|1002"}},
	{"entity?id=Order%7C1001", []string{"2 is the last number", "State at 2", "order.placed", "orders test 'Order|1001'"}},
	{"entity?id=Order%7C1001&at=2", []string{"Event 2: order.paid", `~ /Status: "placed" → "paid"`, "State after event 2", "request-1001", "show 'Order|1001' --at 2 --diff"}},
	{"entity?id=Order%7C1001&at=1&raw=1", []string{"Event 1: order.placed", "0a03626f62120370656e1802"}},
	{"entity?id=Stock%7Cpen", []string{"durable state", `"Pieces": 8`}},
	{"projection?name=sales", []string{"no rule for it", "0-511", "nobody", "Retry all with this error", "Pause the projection"}},
	{"trace?correlation=request-1001&since=2026-03-14T00:00:00Z", []string{"Order|1001 1", "Order|1001 2", "orders trace request-1001"}},
	{"tail", []string{"Order|1002", "order.cancelled", "The newest come first"}},
	{"tail?after=2026-03-14T09:02:30Z", []string{"order.paid"}},
	{"none", []string{"there is no such page"}},
}

// Every view in a browser: it fits a narrow screen, can be read in light and dark, has its landmarks and labels, and breaks no rule of its own policy.
func TestPageInABrowser(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	t.Run("views", func(t *testing.T) {
		t.Parallel()
		address, _ := served(t)
		p := b.open(t, true)
		p.goTo(address + "#token=" + strings.ReplaceAll(token, " ", "%20"))
		p.wait(`document.querySelector("h1").textContent === "Is all well?" && location.hash === ""`)
		for _, v := range views {
			if v.path == "none" {
				continue // the browser complains of its status
			}
			p.size(1100, 800, false)
			p.goTo(address + v.path)
			p.shows(v.shows...)
			for _, look := range []struct {
				width int
				dark  bool
			}{{360, false}, {360, true}, {1100, true}} {
				p.size(look.width, 800, look.dark)
				if faults := p.get(look4faults); faults != "" {
					t.Errorf("/%s at width %d, dark: %v: %s", v.path, look.width, look.dark, faults)
				}
			}
		}
	})
	t.Run("enhanced", func(t *testing.T) {
		t.Parallel()
		address, s := served(t)
		p := b.open(t, true)
		p.goTo(address + "#token=" + strings.ReplaceAll(token, " ", "%20"))
		p.wait(`document.querySelector("h1").textContent === "Is all well?"`)
		liveViews(t, p, address, s)
		moves(t, p, address)
		acts(p, address)
	})
	t.Run("without JavaScript", func(t *testing.T) {
		t.Parallel()
		address, _ := served(t)
		p := b.open(t, false)
		p.goTo(address + "entity?id=Order%7C1001")
		p.get(fmt.Sprintf(`document.querySelector("[name=token]").value = %q`, token))
		p.click("main button")
		p.shows("2 is the last number") // the login leads to the address that was asked for
		for _, v := range views {
			if v.path != "none" {
				p.goTo(address + v.path)
				p.shows(v.shows...)
			}
		}
		p.goTo(address + "entity?id=Order%7C1001")
		p.get(`document.querySelector("input[type=range]").value = 1`)
		p.click("form.slider button")
		p.shows("Event 1: order.placed")
		p.click("a[href^=trace]")
		p.shows("Order|1001 2", "request-1001")
		p.click("nav a")
		p.get(`document.querySelector("#search").value = "1002"`)
		p.click("form[role=search] button")
		p.click(".ids a")
		p.shows("Order|1002")
		acts(p, address)
	})
	if *update {
		pictures(t, b)
	}
}

// liveViews checks that new events are shown, and that they are not while the reader pauses or has marked text.
func liveViews(t *testing.T, p *tab, address string, s annals.Store) {
	t.Helper()
	last := map[string]annals.SeqNr{}
	place := func(id string) {
		t.Helper()
		payload, err := order.Events.Encode(order.Placed{Customer: "ann", Item: "pad", Pieces: 1})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Journal().Append(t.Context(), annals.Commit{ID: order.Behavior.ID(id), After: last[id], Events: []annals.NewEvent{{Payload: payload}}})
		if err != nil {
			t.Fatal(err)
		}
		last[id] = r.SeqNr
	}
	p.goTo(address + "tail")
	p.wait(`document.querySelector("[data-state]").textContent === "follows"`)
	place("new")
	p.wait(`document.querySelector("tbody tr").innerText.includes("Order|new")`)
	p.get(`document.querySelector("[data-pause]").click()`)
	place("later")
	p.wait(`document.querySelector("[data-new]").textContent === "Show 1 new"`)
	if strings.Contains(p.text(), "Order|later") {
		t.Error("a pause shows new events")
	}
	p.get(`document.querySelector("[data-pause]").click()`)
	p.wait(`document.querySelector("tbody tr").innerText.includes("Order|later")`)

	// The start page stays as it is while the reader has marked text.
	p.goTo(address)
	p.wait(`document.querySelector("[data-state]").textContent === "refreshes itself"`)
	p.get(`getSelection().selectAllChildren(document.querySelector("#live table")); document.querySelector("#live .note").textContent = "marked"`)
	p.wait(`document.querySelector("[data-state]").textContent === "there is something new"`)
	if !strings.Contains(p.text(), "marked") {
		t.Error("marked text is replaced")
	}
	p.get(`getSelection().removeAllRanges()`)
	p.wait(`!document.querySelector("#live .note").textContent.includes("marked")`)
}

// moves moves the slider by keys, and copies.
func moves(t *testing.T, p *tab, address string) {
	t.Helper()
	p.goTo(address + "entity?id=Order%7C1001&at=2")
	p.get(`document.querySelector("input[type=range]").focus()`)
	for _, kind := range []string{"rawKeyDown", "keyUp"} {
		p.do("Input.dispatchKeyEvent", parameters{"type": kind, "key": "ArrowLeft", "code": "ArrowLeft", "windowsVirtualKeyCode": 37}, nil)
	}
	p.wait(`document.querySelector("#event").textContent === "Event 1: order.placed" && location.search.includes("at=1") && document.querySelector("output").value === "1"`)
	if p.get(`document.activeElement.type`) != "range" {
		t.Error("the slider has lost the focus")
	}
	p.get(`document.querySelector("#moment [data-copy]").click()`)
	p.wait(`document.querySelector("#moment [data-copy]").textContent === "Copied"`)
	if got, want := p.get(`navigator.clipboard.readText()`), "orders show 'Order|1001' --at 1 --diff"; got != want {
		t.Errorf("copied is %s, want %s", got, want)
	}
}

// acts clicks every button of a projection.
func acts(p *tab, address string) {
	p.t.Helper()
	p.goTo(address + "projection?name=sales")
	for _, c := range []struct{ selector, shows string }{
		{`input[value=pause] ~ button`, "no runner handles events"},
		{`input[value=resume] ~ button`, "It is resumed"},
		{`.acts form:nth-child(1) button`, "to be retried"},
		{`.acts form:nth-child(2) button`, "A retry is ordered"},
		{`input[value=retry] ~ button`, "A retry is ordered"},
		{`.acts form:nth-child(3) button`, "Leave out events for good?"},
		{`main form a`, "no rule for it"},
		{`.acts form:nth-child(3) button`, "up to number 2"},
		{`button.danger`, "to be discarded up to 2"},
	} {
		p.click(c.selector)
		p.shows(c.shows)
	}
}

// look4faults is an expression for what is wrong with the page: without its landmarks, with a field without a label, wider than the screen, hard to read.
const look4faults = `(() => {
  const faults = [];
  for (const one of ["h1", "main", "header", "nav", "title", "html[lang]"]) if (document.querySelectorAll(one).length !== 1) faults.push("not one " + one);
  for (const f of document.querySelectorAll("input:not([type=hidden])")) if (!f.labels.length) faults.push("no label: " + f.outerHTML);
  for (const b of document.querySelectorAll("button, a")) if (!b.textContent.trim() && !b.hidden) faults.push("no text: " + b.outerHTML);
  for (const t of document.querySelectorAll("th")) if (!t.scope) faults.push("no scope: " + t.outerHTML);
  if (document.documentElement.scrollWidth > innerWidth) faults.push("it is " + document.documentElement.scrollWidth + " wide");
  const rgb = (c) => c.match(/[\d.]+/g).map(Number);
  const light = (c) => { const [r, g, b] = rgb(c).map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility()) continue;
    let under = e;
    while (under && (rgb(getComputedStyle(under).backgroundColor)[3] ?? 1) === 0) under = under.parentElement;
    const [a, b] = [light(getComputedStyle(e).color), light(getComputedStyle(under || document.documentElement).backgroundColor)];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faults.push("contrast " + contrast.toFixed(1) + ": " + e.outerHTML.slice(0, 100));
  }
  return faults.join("\n");
})()`

// pictures writes those of the guide.
func pictures(t *testing.T, b *browser) {
	t.Helper()
	address, _ := served(t)
	p := b.open(t, true)
	p.goTo(address + "#token=" + strings.ReplaceAll(token, " ", "%20"))
	p.wait(`document.querySelector("h1").textContent === "Is all well?"`)
	for _, c := range []struct {
		path, file string
		height     int
	}{{"", "page-overview.png", 620}, {"entity?id=Order%7C1001&at=2", "page-entity.png", 940}} {
		p.size(1060, c.height, false)
		p.goTo(address + c.path)
		p.get(`document.fonts.ready`)
		picture := p.picture()
		if len(picture) > 150<<10 {
			t.Errorf("%s has %d bytes", c.file, len(picture))
		}
		if err := os.WriteFile("../../docs/guide/"+c.file, picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
