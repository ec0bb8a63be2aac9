//! The output of a plan, for people or programs.

use std::io;

use hbase_provision::Plan;

use crate::{
    global::Format,
    output,
    style::{Meaning, Target, paint},
};

/// Prints a plan.
pub(super) fn plan(plan: &Plan, format: Format) -> io::Result<()> {
    match format {
        Format::Table => output::page(&text(plan)),
        Format::Json => {
            for change in plan.changes() {
                output::json(change)?;
            }
            for refusal in plan.refusals() {
                output::json(&refusal)?;
            }
            for note in plan.notes() {
                output::json(note)?;
            }
            Ok(())
        }
    }
}

fn text(plan: &Plan) -> String {
    let refusals = plan.refusals();
    let head = match (plan.changes().len(), plan.reopens()) {
        (0, _) => "nothing to change".to_owned(),
        (changes, 0) => output::counted(changes, "change"),
        (changes, regions) => format!(
            "{}, which {} {}",
            output::counted(changes, "change"),
            if changes == 1 { "reopens" } else { "reopen" },
            output::counted(regions, "region"),
        ),
    };
    let mut lines = vec![format!("{}: {head}", plan.table())];
    for change in plan.changes() {
        lines.push(painted(change.sign(), &change.to_string()));
    }
    let (losses, others): (Vec<_>, Vec<_>) = refusals
        .iter()
        .partition(|refusal| refusal.refused == "data-loss");
    for refusal in others {
        lines.push(painted('!', &format!("refused: {refusal}")));
    }
    // Each loss is shown with its change.
    if let Some(first) = losses.first() {
        let place = first.file.as_ref().map(|file| format!("{file}: "));
        let place = place.unwrap_or_default();
        let changes = output::counted(losses.len(), "change");
        let options = losses.iter().map(|loss| loss.fix.trim_start_matches("pass "));
        let options: Vec<_> = options.collect();
        lines.push(painted(
            '!',
            &format!(
                "refused: {place}would lose data ({changes}); pass {}",
                options.join(" ")
            ),
        ));
    }
    for note in plan.notes() {
        lines.push(format!("    note: {note}"));
    }
    lines.join("\n")
}

fn painted(sign: char, text: &str) -> String {
    let meaning = match sign {
        '+' => Meaning::Good,
        '~' => Meaning::Notice,
        _ => Meaning::Bad,
    };
    format!("  {}", paint(Target::Stdout, meaning, &format!("{sign} {text}")))
}
