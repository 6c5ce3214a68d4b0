//! The figures of many lives.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use staffai_simulator::life::Outcome;
use staffai_simulator::swarm::{Fault, Port};

/// The figures of a number of lives.
#[derive(Debug, Default)]
pub struct Report {
    lives: u64,
    /// Simulated milliseconds.
    simulated: u64,
    processes: u64,
    asked: u64,
    judged: u64,
    hits: BTreeMap<(String, String), u64>,
    broken: BTreeMap<String, u64>,
    findings: Vec<(u64, Vec<String>)>,
    /// The time that all lives took together.
    pub took: Duration,
}

/// The most lives with findings that are printed.
const PRINTED: usize = 20;

/// Returns an outcome as a line of JSON.
pub fn line(outcome: &Outcome) -> Value {
    let findings: Vec<String> = outcome.findings.iter().map(ToString::to_string).collect();
    let hits: Vec<Value> =
        outcome.hits.iter().map(|(port, fault, many)| json!([port.name(), fault.name(), many])).collect();
    json!({
        "seed": outcome.seed,
        "hash": format!("{:016x}", outcome.hash),
        "simulated": outcome.simulated,
        "processes": outcome.processes,
        "asked": outcome.asked,
        "judged": outcome.judged,
        "hits": hits,
        "broken": outcome.broken,
        "findings": findings,
    })
}

impl Report {
    /// Adds a life. A line that is no outcome is a finding: the simulator failed.
    pub fn add(&mut self, seed: u64, line: &str) {
        self.lives += 1;
        let Ok(outcome) = serde_json::from_str::<Value>(line) else {
            self.findings.push((seed, vec!["the simulator failed".to_owned()]));
            return;
        };
        let number = |name: &str| outcome[name].as_u64().unwrap_or(0);
        self.simulated += number("simulated");
        self.processes += number("processes");
        self.asked += number("asked");
        self.judged += number("judged");
        for hit in outcome["hits"].as_array().into_iter().flatten() {
            let name = |index: usize| hit[index].as_str().unwrap_or_default().to_owned();
            *self.hits.entry((name(0), name(1))).or_default() += hit[2].as_u64().unwrap_or(0);
        }
        for (kind, many) in outcome["broken"].as_object().into_iter().flatten() {
            *self.broken.entry(kind.clone()).or_default() += many.as_u64().unwrap_or(0);
        }
        let findings: Vec<String> =
            outcome["findings"].as_array().into_iter().flatten().map(|finding| text(finding)).collect();
        if !findings.is_empty() {
            self.findings.push((seed, findings));
        }
    }

    /// Returns the number of lives with findings.
    pub fn found(&self) -> usize {
        self.findings.len()
    }

    /// Returns the number of lives.
    pub fn lives(&self) -> u64 {
        self.lives
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl fmt::Display for Report {
    #[expect(clippy::cast_precision_loss, reason = "the figures are printed with few digits")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, simulated) = (self.took.as_secs_f64().max(0.001), self.simulated as f64 / 1000.0);
        writeln!(f, "lives                 {}", self.lives)?;
        writeln!(f, "simulated hours       {:.0}", simulated / 3600.0)?;
        writeln!(f, "seconds               {seconds:.0}")?;
        writeln!(f, "simulated / wall time {:.0}", simulated / seconds)?;
        writeln!(f, "lives per hour        {:.0}", self.lives as f64 * 3600.0 / seconds)?;
        writeln!(f, "processes             {}", self.processes)?;
        writeln!(f, "questions, judged     {}, {}", self.asked, self.judged)?;
        write!(f, "\n{:<14}", "faults")?;
        Fault::ALL.iter().try_for_each(|fault| write!(f, "{:>14}", fault.name()))?;
        for port in Port::ALL {
            write!(f, "\n{:<14}", port.name())?;
            for fault in Fault::ALL {
                let many = self.hits.get(&(port.name().to_owned(), fault.name().to_owned()));
                write!(f, "{:>14}", many.map_or_else(|| "never".to_owned(), ToString::to_string))?;
            }
        }
        writeln!(f, "\n\nbroken actors")?;
        self.broken.iter().try_for_each(|(kind, many)| writeln!(f, "{kind:<22}{many}"))?;
        writeln!(f, "\nlives with findings   {}", self.findings.len())?;
        for (seed, findings) in self.findings.iter().take(PRINTED) {
            writeln!(f, "staffai-simulator life {seed}")?;
            findings.iter().try_for_each(|finding| writeln!(f, "  {finding}"))?;
        }
        Ok(())
    }
}
