//! The report: the machine, the method, and the figures of each workload.

use std::fs;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use super::{
    setup::{Failure, median},
    workload::{Contestant, Workload},
};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) cluster: Cluster,
    /// What guards the cluster, for example "TLS".
    pub(crate) guard: Option<String>,
    /// The releases of the contestants.
    pub(crate) clients: Vec<(Contestant, String)>,
    pub(crate) method: Method,
    pub(crate) workloads: Vec<WorkloadReport>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) processors: usize,
    pub(crate) memory_gib: f64,
    pub(crate) kernel: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Cluster {
    pub(crate) hbase: String,
    pub(crate) shape: String,
    pub(crate) regions: usize,
    /// The Java options that determine speed, by server.
    pub(crate) java_options: Vec<(String, String)>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Method {
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    /// Whether the clients run on the first processor and the servers on the others.
    pub(crate) pinned: bool,
    /// The largest share of the machine that other processes may have in a round.
    pub(crate) max_foreign: f64,
    /// The most rounds of a workload that are repeated because of other processes.
    pub(crate) max_repeats: usize,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WorkloadReport {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) unit: String,
    /// Whether the time of a call is compared instead of the rate.
    pub(crate) lone: bool,
    /// The first variant is that of this client.
    pub(crate) variants: Vec<VariantReport>,
    /// Rounds that were repeated because of other processes.
    pub(crate) dropped: usize,
    /// Rounds that count although other processes ran.
    pub(crate) disturbed: usize,
}

/// The medians of a variant's rounds, and the comparison with this client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct VariantReport {
    pub(crate) name: String,
    pub(crate) contestant: Contestant,
    /// Rows or commits a second.
    pub(crate) rate: f64,
    /// Percentiles of the times of calls, in microseconds.
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    /// Microseconds of processor time of the client for a row.
    pub(crate) cpu_per_row: f64,
    /// Bytes.
    pub(crate) resident: f64,
    /// This client's figures divided by those of this variant.
    pub(crate) ratios: Option<Ratios>,
    pub(crate) rounds: Vec<Round>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ratios {
    pub(crate) rate: Interval,
    pub(crate) p50: Option<Interval>,
    /// `None` if a round of the other took no measurable time.
    pub(crate) cpu_per_row: Option<Interval>,
}

/// The median of the rounds' ratios, and its 95 % interval.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Interval {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// The figures of one variant in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Round {
    pub(crate) rate: f64,
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) cpu_per_row: f64,
    pub(crate) resident: u64,
    pub(crate) foreign: f64,
}

impl WorkloadReport {
    /// Summarizes rounds, which are in the order of the workload's variants.
    pub(crate) fn of(workload: &Workload, rounds: Vec<Vec<Round>>, dropped: usize, disturbed: usize) -> Self {
        let ours = rounds.first().cloned().unwrap_or_default();
        let variants = workload.variants.iter().zip(rounds).enumerate();
        let variants = variants.map(|(index, (variant, rounds))| {
            let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure));
            let some = |figure: fn(&Round) -> Option<f64>| {
                let values: Option<Vec<f64>> = rounds.iter().map(figure).collect();
                values.map(median)
            };
            let ratio = |figure: fn(&Round) -> Option<f64>| {
                let pairs = ours.iter().zip(&rounds);
                let ratios: Option<Vec<f64>> = pairs
                    .map(|(own, other)| Some(figure(own)? / figure(other)?).filter(|ratio| ratio.is_finite()))
                    .collect();
                ratios.map(|ratios| Interval::of(&ratios))
            };
            let compared = ratio(|round| Some(round.rate)).filter(|_| index > 0);
            VariantReport {
                name: variant.name.clone(),
                contestant: variant.contestant,
                rate: of(|round| round.rate),
                p50: some(|round| round.p50),
                p99: some(|round| round.p99),
                cpu_per_row: of(|round| round.cpu_per_row),
                resident: of(|round| round.resident as f64),
                ratios: compared.map(|rate| Ratios {
                    rate,
                    p50: ratio(|round| round.p50),
                    cpu_per_row: ratio(|round| Some(round.cpu_per_row)),
                }),
                rounds,
            }
        });
        Self {
            id: workload.id.to_owned(),
            title: workload.title.clone(),
            unit: workload.unit.to_owned(),
            lone: workload.lone,
            variants: variants.collect(),
            dropped,
            disturbed,
        }
    }
}

impl VariantReport {
    /// Returns the comparison that counts for the workload.
    pub(crate) fn ratio(&self, lone: bool) -> Option<&Interval> {
        let ratios = self.ratios.as_ref()?;
        if lone {
            ratios.p50.as_ref()
        } else {
            Some(&ratios.rate)
        }
    }
}

impl Interval {
    const SAMPLES: usize = 10_000;

    /// Computes the interval by bootstrap, always with the same random numbers.
    fn of(ratios: &[f64]) -> Self {
        let mut random = Rng::with_seed(17);
        let mut medians: Vec<f64> = (0..Self::SAMPLES)
            .map(|_| median(ratios.iter().map(|_| ratios[random.usize(..ratios.len())])))
            .collect();
        medians.sort_by(f64::total_cmp);
        let at = |share: f64| medians[(medians.len() as f64 * share) as usize];
        Self {
            median: median(ratios.iter().copied()),
            low: at(0.025),
            high: at(0.975),
        }
    }
}

impl Machine {
    pub(crate) fn read(processors: usize) -> Result<Self, Failure> {
        let field = |file: &str, name: &str| {
            let text = fs::read_to_string(file)?;
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(name)?.split_once(':'));
            Ok::<_, Failure>(line.map_or_else(String::new, |(_, value)| value.trim().to_owned()))
        };
        let memory = field("/proc/meminfo", "MemTotal")?;
        let memory: f64 = memory.trim_end_matches(" kB").parse()?;
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
        let kernel = kernel.trim().split('-').next().unwrap_or_default();
        Ok(Self {
            processor: field("/proc/cpuinfo", "model name")?,
            processors,
            memory_gib: memory / f64::from(1 << 20),
            kernel: format!("Linux {kernel}"),
        })
    }
}
