//! A small client of `WebDriver`, as the W3C specifies it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jobq_tests::test_store::DEADLINE;
use serde_json::{Value, json};

/// The key of an element in the protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A way to show pages.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Look {
    pub(crate) dark: bool,
    pub(crate) phone: bool,
    pub(crate) without_script: bool,
}

/// Asks again and again until there is an answer.
pub(crate) fn within<T>(ask: impl Fn() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    while start.elapsed() < DEADLINE {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    None
}

/// A browser with one window. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Browser {
    process: Child,
    session: String,
    agent: ureq::Agent,
    without_script: bool,
}

impl Browser {
    /// A browser, unless this machine has none.
    pub(crate) fn open(test: &str, look: Look) -> Option<Self> {
        let started = Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).spawn();
        let Ok(mut process) = started else {
            eprintln!("SKIPPED: {test} needs chromedriver, which ./tests/run installs");
            return None;
        };
        let output = process.stdout.take().expect("its output is a pipe");
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let port = lines.find_map(|line| {
            let port = line.split("started successfully on port ").nth(1)?;
            port.trim_end_matches('.').parse::<u16>().ok()
        });
        // It blocks when nobody reads what it prints.
        std::thread::spawn(move || lines.for_each(drop));
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        let agent = ureq::Agent::new_with_config(config);
        let base = format!("http://127.0.0.1:{}/session", port.expect("it says its port"));
        let without_script = look.without_script;
        let mut browser = Self { process, session: base, agent, without_script };
        let script = if without_script { 2 } else { 1 };
        let capabilities = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--window-size=1280,900", "--hide-scrollbars"],
            "prefs": {"profile.managed_default_content_settings.javascript": script},
        }}}});
        let session = browser.post("", &capabilities);
        let id = session["sessionId"].as_str().unwrap_or_else(|| panic!("a session: {session}"));
        browser.session = format!("{}/{id}", browser.session);
        browser.look(look);
        Some(browser)
    }

    /// Sets the theme and the size of the window.
    pub(crate) fn look(&self, look: Look) {
        let theme = if look.dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
        self.devtools("Emulation.setEmulatedMedia", &media);
        let (width, height) = if look.phone { (390, 844) } else { (1280, 900) };
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": look.phone});
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics);
    }

    fn devtools(&self, command: &str, parameters: &Value) {
        self.post("/goog/cdp/execute", &json!({"cmd": command, "params": parameters}));
    }

    pub(crate) fn go(&self, url: &str) {
        self.post("/url", &json!({"url": url}));
    }

    pub(crate) fn address(&self) -> String {
        self.ask("/url").as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the address has this part, and gives the address. A click comes back before the
    /// page that it leads to is there.
    pub(crate) fn arrives(&self, part: &str) -> String {
        let there = within(|| Some(self.address()).filter(|address| address.contains(part)));
        there.unwrap_or_else(|| panic!("`{part}` is not in {}", self.address()))
    }

    /// The text that a person sees.
    pub(crate) fn text(&self) -> String {
        self.find("body").map(|body| self.text_of(&body)).unwrap_or_default()
    }

    fn text_of(&self, element: &str) -> String {
        self.ask(&format!("/element/{element}/text")).as_str().unwrap_or_default().to_owned()
    }

    /// Asks again and again until there is an answer. Without a script only a person's reload shows
    /// newer figures.
    fn within<T>(&self, ask: impl Fn() -> Option<T>) -> Option<T> {
        within(|| {
            let answer = ask();
            if answer.is_none() && self.without_script {
                self.post("/refresh", &json!({}));
            }
            answer
        })
    }

    /// Waits until the page has this text.
    pub(crate) fn sees(&self, part: &str) {
        let seen = self.within(|| self.text().contains(part).then_some(()));
        assert!(seen.is_some(), "`{part}` is not on {}:\n{}", self.address(), self.text());
    }

    /// The first element of a CSS selector.
    pub(crate) fn find(&self, selector: &str) -> Option<String> {
        let found = self.post("/element", &json!({"using": "css selector", "value": selector}));
        found[ELEMENT].as_str().map(str::to_owned)
    }

    pub(crate) fn click(&self, selector: &str) {
        let element = self.within(|| self.find(selector));
        let element = element.unwrap_or_else(|| panic!("no {selector} on {}", self.address()));
        self.post(&format!("/element/{element}/click"), &json!({}));
    }

    /// Clicks a link or button by its text.
    pub(crate) fn press(&self, text: &str) {
        let path = format!(
            "//*[self::a or self::button or self::summary][starts-with(normalize-space(.), '{text}')]"
        );
        let find = || {
            let found = self.post("/element", &json!({"using": "xpath", "value": path}));
            found[ELEMENT].as_str().map(str::to_owned)
        };
        let element = self.within(find).unwrap_or_else(|| panic!("no `{text}`:\n{}", self.text()));
        self.post(&format!("/element/{element}/click"), &json!({}));
    }

    pub(crate) fn type_into(&self, selector: &str, text: &str) {
        let element = self.find(selector).unwrap_or_else(|| panic!("no {selector}"));
        self.post(&format!("/element/{element}/clear"), &json!({}));
        self.post(&format!("/element/{element}/value"), &json!({"text": text}));
    }

    /// Presses keys, one after the other.
    pub(crate) fn keys(&self, keys: &[char]) {
        let actions: Vec<_> = keys
            .iter()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key})))
            .collect();
        let source = json!({"type": "key", "id": "keyboard", "actions": actions});
        self.post("/actions", &json!({"actions": [source]}));
    }

    /// The value of an expression on the page.
    pub(crate) fn evaluate(&self, expression: &str) -> Value {
        self.run(&format!("return {expression}"))
    }

    pub(crate) fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// The result of a promise.
    pub(crate) fn settle(&self, promise: &str) -> Value {
        let script = format!(
            "const done = arguments[0]; ({promise}).then(done, (error) => done(String(error)))"
        );
        self.post("/execute/async", &json!({"script": script, "args": []}))
    }

    /// Opens a tab, which becomes the visible one, and gives the one that was.
    pub(crate) fn tab(&self) -> String {
        let before = self.ask("/window").as_str().unwrap_or_default().to_owned();
        let new = self.post("/window/new", &json!({"type": "tab"}));
        self.switch(new["handle"].as_str().unwrap_or_default());
        before
    }

    /// Makes a tab the visible one.
    pub(crate) fn switch(&self, tab: &str) {
        self.post("/window", &json!({"handle": tab}));
        self.devtools("Page.bringToFront", &json!({}));
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let url = format!("{}{path}", self.session);
        let request = self.agent.post(&url).header("content-type", "application/json");
        let answer = request
            .send(body.to_string())
            .and_then(|mut answer| answer.body_mut().read_to_string());
        value(&answer.unwrap_or_else(|error| panic!("chromedriver answers: {error}")))
    }

    fn ask(&self, path: &str) -> Value {
        let answer = self.agent.get(format!("{}{path}", self.session)).call();
        let answer = answer.and_then(|mut answer| answer.body_mut().read_to_string());
        value(&answer.unwrap_or_else(|error| panic!("chromedriver answers: {error}")))
    }
}

fn value(answer: &str) -> Value {
    let mut answer: Value = serde_json::from_str(answer).expect("it answers with JSON");
    answer["value"].take()
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.agent.delete(&self.session).call();
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
