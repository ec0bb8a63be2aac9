//! Metrics, sent to the recorder of the crate `metrics`.

use std::sync::{PoisonError, RwLock};

use metrics::{Key, Label, Level, Metadata, Recorder, with_recorder};
use tokio::time::Instant;

/// A metric. Each use of it goes to the recorder that is installed then.
#[derive(Debug)]
pub struct Metric {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    /// The keys that were used, by the values of their labels. A metric has few.
    keys: RwLock<Vec<(Vec<&'static str>, Key)>>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// One unit of a gauge. Dropping it lowers the gauge.
#[derive(Debug)]
#[must_use = "the gauge falls when it is dropped"]
pub struct GaugeUnit(&'static Metric);

/// The beginning of a duration.
#[derive(Clone, Copy, Debug)]
pub struct Timer(Instant);

static METADATA: Metadata<'static> = Metadata::new("hbase_client", Level::INFO, None);

impl Metric {
    /// Creates a counter with these labels.
    #[must_use]
    pub const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self::new(Kind::Counter, name, labels, help)
    }

    /// Creates a gauge.
    #[must_use]
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self::new(Kind::Gauge, name, &[], help)
    }

    /// Creates a histogram with these labels.
    #[must_use]
    pub const fn histogram(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self::new(Kind::Histogram, name, labels, help)
    }

    const fn new(
        kind: Kind,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self {
            name,
            help,
            kind,
            labels,
            keys: RwLock::new(Vec::new()),
        }
    }

    /// Describes these metrics to the recorder.
    pub fn describe_all(metrics: &[&Self]) {
        with_recorder(|recorder| {
            for metric in metrics {
                let (name, help) = (metric.name.into(), metric.help.into());
                match metric.kind {
                    Kind::Counter => recorder.describe_counter(name, None, help),
                    Kind::Gauge => recorder.describe_gauge(name, None, help),
                    Kind::Histogram => recorder.describe_histogram(name, None, help),
                }
            }
        });
    }

    /// Raises a counter by one. The values of the labels are in the order of their names.
    pub fn count<const N: usize>(&self, labels: impl FnOnce() -> [&'static str; N]) {
        self.count_many(1, labels);
    }

    /// Raises a counter.
    pub fn count_many<const N: usize>(&self, number: usize, labels: impl FnOnce() -> [&'static str; N]) {
        self.with_key(labels(), |recorder, key| {
            recorder.register_counter(key, &METADATA).increment(number as u64);
        });
    }

    /// Raises a gauge by one until the result is dropped.
    pub fn raise(&'static self) -> GaugeUnit {
        self.with_key([], |recorder, key| {
            recorder.register_gauge(key, &METADATA).increment(1.0);
        });
        GaugeUnit(self)
    }

    /// Records a number in a histogram.
    pub fn record<const N: usize>(&self, number: usize, labels: impl FnOnce() -> [&'static str; N]) {
        self.record_value(number as f64, labels());
    }

    /// Records the seconds since the timer was started in a histogram.
    pub fn record_since<const N: usize>(&self, timer: Timer, labels: impl FnOnce() -> [&'static str; N]) {
        self.record_value(timer.0.elapsed().as_secs_f64(), labels());
    }

    fn record_value<const N: usize>(&self, value: f64, labels: [&'static str; N]) {
        self.with_key(labels, |recorder, key| {
            recorder.register_histogram(key, &METADATA).record(value);
        });
    }

    fn with_key<const N: usize>(&self, values: [&'static str; N], send: impl Fn(&dyn Recorder, &Key)) {
        {
            let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, key)) = keys.iter().find(|(known, _)| *known == values) {
                return with_recorder(|recorder| send(recorder, key));
            }
        }
        let labels = self.labels.iter().zip(values);
        let labels = labels.map(|(name, value)| Label::from_static_parts(name, value));
        let key = Key::from_parts(self.name, labels.collect::<Vec<_>>());
        with_recorder(|recorder| send(recorder, &key));
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if !keys.iter().any(|(known, _)| *known == values) {
            keys.push((values.to_vec(), key));
        }
    }
}

impl Drop for GaugeUnit {
    fn drop(&mut self) {
        self.0.with_key([], |recorder, key| {
            recorder.register_gauge(key, &METADATA).decrement(1.0);
        });
    }
}

impl Timer {
    /// Starts a timer.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }
}
