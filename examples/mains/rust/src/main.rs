//! A main in Rust: works only while its elector proves that this pod leads.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, thread};

use rustix::time::{clock_gettime, ClockId};
use serde::Deserialize;

/// How long a connection and the start of its response may take. An established stream needs no
/// limit: the kernel ends it with the elector's process, and a frozen elector proves nothing.
const ANSWER: Duration = Duration::from_secs(3);
/// Electors and mains start in any order.
const REDIAL: Duration = Duration::from_millis(200);

/// The fields of `GET /leader` that a main needs.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    is_leader: bool,
    valid_until: Option<f64>,
    fencing_token: Option<i64>,
}

/// The clock that `validUntil` counts. `std::time::Instant` stops while the machine is suspended:
/// a lead would seem to last longer than it is proven.
fn boottime() -> f64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

impl Document {
    /// The fencing token while the lead is proven.
    fn token(&self) -> Option<i64> {
        let is_proven = self.is_leader && boottime() < self.valid_until?;
        self.fencing_token.filter(|_| is_proven)
    }
}

/// Hears the elector for one connection. The last proof ends by itself, at `validUntil`.
fn follow(
    agent: &ureq::Agent,
    url: &str,
    newest: &Mutex<Document>,
) -> Result<(), Box<dyn std::error::Error>> {
    let response = agent.get(url).call()?;
    for line in BufReader::new(response.into_body().into_reader()).lines() {
        *newest.lock().unwrap() = serde_json::from_str(&line?)?;
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    let elector = env::var("ELECTOR").unwrap_or("http://127.0.0.1:4040".into());
    let path = env::var("LEDGER").expect("LEDGER");
    let mut ledger = OpenOptions::new().append(true).create(true).open(path)?;
    let newest = Arc::new(Mutex::new(Document::default()));
    let heard = newest.clone();
    thread::spawn(move || {
        let limits = ureq::Agent::config_builder()
            .timeout_connect(Some(ANSWER))
            .timeout_recv_response(Some(ANSWER));
        let agent: ureq::Agent = limits.build().into();
        loop {
            let _ = follow(&agent, &format!("{elector}/leader?watch=true"), &heard);
            thread::sleep(REDIAL);
        }
    });
    // SIGTERM ends the process at once, and its work with it.
    loop {
        if let Some(token) = newest.lock().unwrap().token() {
            writeln!(ledger, "{token}")?; // one unit of work
        }
        thread::sleep(Duration::from_millis(50));
    }
}
