// Keeps the content of a page live, and adds what forms alone cannot do. Every page works without it.

const content = document.getElementById("content");
const lost = document.getElementById("lost");

/** How long a hidden tab waits between two fetches, and a lost page between two attempts. */
const HIDDEN_MS = 15_000;
/** How long without an answer until the page says so. */
const LOST_MS = 6_000;
/** How long a stream lasts: the server ends it, and the next one begins with the content. */
const STREAM_MS = 20_000;

// ---- New content in place of the old one, without flicker: what is alike stays.

/** Elements that match by their id, others by their position. */
const isSame = (one, other) =>
  one.nodeType === other.nodeType && one.nodeName === other.nodeName && (one.id ?? "") === (other.id ?? "");

/** What a person sets by opening or typing is not taken back. */
const isPersons = (element, name) =>
  (name === "open" && element.nodeName === "DETAILS") || (name === "hidden" && element.matches("[data-copy], [data-all]"));

function morphAttributes(old, fresh) {
  for (const { name, value } of fresh.attributes) {
    if (!isPersons(old, name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!isPersons(old, name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
}

function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  morphAttributes(old, fresh);
  morphChildren(old, fresh);
}

function morphChildren(old, fresh) {
  const byId = new Map();
  for (const child of old.children) if (child.id) byId.set(child.id, child);
  const kept = new Set();
  for (const child of fresh.children) if (child.id) kept.add(child.id);
  let place = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const known = next.id && byId.get(next.id);
    if (known) {
      // What is gone before it is removed first: an element that is moved loses the focus.
      while (place && place !== known && !kept.has(place.id)) {
        const gone = place;
        place = place.nextSibling;
        gone.remove();
      }
      if (known === place) place = place.nextSibling;
      else old.insertBefore(known, place);
      morph(known, next);
    } else if (place && isSame(place, next)) {
      const here = place;
      place = place.nextSibling;
      morph(here, next);
    } else {
      old.insertBefore(next, place);
    }
  }
  while (place) {
    const gone = place;
    place = place.nextSibling;
    gone.remove();
  }
}

function show(html) {
  const fresh = document.createElement("div");
  fresh.innerHTML = html;
  morphChildren(content, fresh);
  enhance();
  find();
  isBack();
}

// ---- Whether the dashboard answers at all.

let last = Date.now();

function isBack() {
  last = Date.now();
  lost.hidden = true;
  delete document.body.dataset.lost;
}

function isLost() {
  const silent = Date.now() - last;
  if (silent < LOST_MS || !lost.hidden) return;
  const at = new Date(last).toISOString().slice(11, 19);
  lost.textContent = `The dashboard has not answered since ${at}. The figures, in grey, are from that time.`;
  lost.hidden = false;
  document.body.dataset.lost = "";
}

/** The dashboard answers, and not with this page: it is gone, or may not be seen any more. */
function isRefused(status) {
  if (status >= 500) return isLost();
  lost.textContent = status
    ? `The dashboard refused this page (${status}). The figures, in grey, are old. Reload the page.`
    : "The dashboard redirects to another page, as when a login has expired. Reload this page.";
  lost.hidden = false;
  document.body.dataset.lost = "";
}

// ---- A visible tab has a stream, since a browser allows six for a host. Hidden tabs fetch.

let stream = null;
let timer = 0;
let tag = "";
let opened = 0;

const address = (kind) => {
  const url = new URL(location.href);
  url.searchParams.set("live", kind);
  url.hash = "";
  return url;
};

function open() {
  clearTimeout(timer);
  close();
  opened = Date.now();
  stream = new EventSource(address("stream"));
  const mine = stream;
  stream.addEventListener("content", (event) => {
    tag = "";
    show(event.data);
  });
  stream.addEventListener("open", isBack);
  stream.addEventListener("error", () => {
    if (mine !== stream) return;
    // After an answer that is no stream a browser does not try again by itself.
    if (mine.readyState === EventSource.CLOSED) {
      fetchOnce();
      timer = setTimeout(open, LOST_MS);
    }
    setTimeout(isLost, LOST_MS + 100);
  });
}

function close() {
  if (stream) stream.close();
  stream = null;
}

async function fetchOnce() {
  try {
    const headers = tag ? { "If-None-Match": tag } : {};
    const answer = await fetch(address("fragment"), { headers, redirect: "manual" });
    if (answer.status === 304) isBack();
    else if (answer.ok && answer.headers.has("etag")) {
      tag = answer.headers.get("etag");
      show(await answer.text());
    } else isRefused(answer.status);
  } catch {
    isLost();
  }
  if (document.hidden) timer = setTimeout(fetchOnce, HIDDEN_MS);
}

function start() {
  if (document.hidden) {
    close();
    clearTimeout(timer);
    timer = setTimeout(fetchOnce, HIDDEN_MS);
  } else {
    open();
  }
}

if ("live" in document.body.dataset) {
  document.addEventListener("visibilitychange", start);
  // A page that is kept for "back" holds no stream.
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => event.persisted && start());
  // A connection may fall silent without an error.
  setInterval(() => {
    if (document.hidden || Date.now() - Math.max(last, opened) < STREAM_MS + LOST_MS) return;
    isLost();
    open();
  }, LOST_MS);
  start();
}

// ---- Selecting all, copying, searching while typing.

function enhance() {
  for (const element of document.querySelectorAll("[data-copy][hidden], [data-all][hidden]")) {
    if (element.matches("[data-all]") || navigator.clipboard) element.hidden = false;
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.textContent = "Copied";
});

document.addEventListener("change", (event) => {
  if (!event.target.matches("[data-all]")) return;
  for (const box of event.target.form.elements) if (box.name === "id") box.checked = event.target.checked;
});

function find() {
  const field = document.getElementById("find");
  if (!field) return;
  const text = field.value.trim();
  for (const row of content.querySelectorAll("tr[id^='q-']")) row.hidden = !row.id.slice(2).includes(text);
}

document.addEventListener("input", (event) => event.target.id === "find" && find());

enhance();
