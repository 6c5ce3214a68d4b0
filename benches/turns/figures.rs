//! Figures, and the table in which they are printed.

use crate::arithmetic::{plain, quartiles};
use crate::process;

/// The share of stolen CPU time above which a round is marked.
const STEAL_MAX: f64 = 0.02;

/// The verdict on a figure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// The goal is met.
    Met,
    /// The goal is missed.
    Missed,
    /// The figure has no goal.
    Told,
}

/// One row of the table.
pub struct Row {
    what: String,
    goal: String,
    figure: String,
    word: Word,
    stolen: bool,
}

#[derive(Default)]
pub struct Table {
    rows: Vec<Row>,
    /// Violated invariants.
    pub broken: Vec<String>,
}

impl Table {
    pub fn at_most(&mut self, what: &str, figure: (f64, &str), goal: f64, steal: &Steal) {
        let word = if figure.0 <= goal { Word::Met } else { Word::Missed };
        let (value, unit) = figure;
        self.add(what, &format!("<= {} {unit}", plain(goal)), &format!("{} {unit}", plain(value)), word, steal);
    }

    /// Adds a figure with a minimum.
    pub fn at_least(&mut self, what: &str, figure: (f64, &str), goal: f64, steal: &Steal) {
        let word = if figure.0 >= goal { Word::Met } else { Word::Missed };
        let (value, unit) = figure;
        self.add(what, &format!(">= {} {unit}", plain(goal)), &format!("{} {unit}", plain(value)), word, steal);
    }

    /// Adds a ratio of many rounds with a maximum.
    pub fn ratio(&mut self, what: &str, ratios: &[f64], goal: f64, steal: &Steal) {
        let (low, middle, high) = quartiles(ratios);
        let word = if middle <= goal { Word::Met } else { Word::Missed };
        let figure = format!("{middle:.2} [{low:.2} {high:.2}] x");
        self.add(what, &format!("<= {goal:.2} x"), &figure, word, steal);
    }

    /// Adds a figure without a goal.
    pub fn told(&mut self, what: &str, figure: &str, steal: &Steal) {
        self.add(what, "", figure, Word::Told, steal);
    }

    /// Records a violated invariant.
    pub fn broke(&mut self, what: impl Into<String>) {
        let what = what.into();
        println!("BROKEN: {what}");
        self.broken.push(what);
    }

    fn add(&mut self, what: &str, goal: &str, figure: &str, word: Word, steal: &Steal) {
        let row = Row {
            what: what.to_owned(),
            goal: goal.to_owned(),
            figure: figure.to_owned(),
            word,
            stolen: steal.share() > STEAL_MAX,
        };
        eprintln!("  {what}: {figure}");
        self.rows.push(row);
    }

    pub fn print(&self) {
        let width = |of: fn(&Row) -> &str| self.rows.iter().map(|row| of(row).chars().count()).max().unwrap_or(0);
        let (what, figure, goal) = (width(|row| &row.what), width(|row| &row.figure), width(|row| &row.goal));
        for row in &self.rows {
            let word = match row.word {
                Word::Met => "met",
                Word::Missed => "MISSED",
                Word::Told => "",
            };
            let stolen = if row.stolen { "  (steal > 2 %)" } else { "" };
            let line = format!("{:what$}  {:>figure$}  {:<goal$}  {word}{stolen}", row.what, row.figure, row.goal);
            println!("{}", line.trim_end());
        }
    }
}

/// Measures the CPU time that the host stole.
pub struct Steal((f64, f64));

impl Steal {
    /// Starts measuring.
    pub fn watch() -> Self {
        Self(process::stolen())
    }

    /// Returns the stolen share since the start.
    pub fn share(&self) -> f64 {
        let (stolen, all) = process::stolen();
        (stolen - self.0.0) / (all - self.0.1).max(1.0)
    }
}
