//! `hbase-txn latch init`.

use std::time::Duration;

use clap::Args;
use hbase_txn::latch::{MAX_LATCH_TTL, MIN_LATCH_TTL};
use serde::Serialize;

use super::{
    missing::MissingTable,
    which::{LatchUse, Which},
};
use crate::{
    durations,
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
    values::{self, Ranged},
};

/// Create a latch with a count and a lifetime
///
/// Counts do not extend the lifetime. Leftovers of Java clients that counted down too late are
/// removed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Init {
    #[command(flatten)]
    which: Which,
    /// Count; a latch of 0 is reached at once, until a client counts up
    #[arg(value_name = "COUNT", allow_negative_numbers = true, value_parser = values::whole::<u64>)]
    count: Ranged<u64>,
    /// Lifetime of the latch: 100ms to 8784h, at most the TTL of the table's families
    #[arg(long, value_name = "DURATION", default_value = "1h", allow_hyphen_values = true, value_parser = durations::parse)]
    ttl: Ranged<Duration>,
    #[command(flatten)]
    table: MissingTable,
}

const EXAMPLE: &str = r#"Example: hbase-txn latch init latches nightly 3 --farm fra --client billing --ttl 2h --output json answers

{"latch":"DC#fra#billing#nightly","count":3,"ttl_ms":7200000}

Exit status: 0 created; 3 it exists, open or reached; 1 refused or failed; 4 the answer was lost."#;

#[derive(Serialize)]
struct Created {
    latch: String,
    count: u64,
    ttl_ms: u64,
}

impl Init {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let named = self.which.named(LatchUse::Count)?;
        let (count, ttl) = (self.count()?, self.ttl()?);
        let missing = self.table.missing(&self.which.table)?;
        let latches = missing.open(named.options(), global).await?;
        let latch = latches.latch(named.level, named.id())?;
        latch.init(count, ttl).await?;
        let made = Created {
            latch: named.key(),
            count,
            ttl_ms: durations::milliseconds(ttl),
        };
        match global.output {
            Format::Json => output::json(&made)?,
            Format::Table => output::line(&format!(
                "{}: created, {count} to count down within {}",
                made.latch,
                durations::shown(ttl)
            ))?,
        }
        Ok(Exit::Done)
    }

    fn count(&self) -> Result<u64, Failure> {
        let count = self.count.get("COUNT")?;
        match i64::try_from(count) {
            Ok(_) => Ok(count),
            Err(_) => Err(Failure::Unparsable(format!(
                "COUNT {count} is out of range: at most {}",
                i64::MAX
            ))),
        }
    }

    /// Returns the lifetime, if it is in the range of all tables.
    fn ttl(&self) -> Result<Duration, Failure> {
        let ttl = self.ttl.get("--ttl")?;
        if (MIN_LATCH_TTL..=MAX_LATCH_TTL).contains(&ttl) {
            return Ok(ttl);
        }
        Err(Failure::Unparsable(format!(
            "--ttl {} is out of range: a latch lives from {} to {}",
            durations::shown(ttl),
            durations::shown(MIN_LATCH_TTL),
            durations::shown(MAX_LATCH_TTL)
        )))
    }
}
