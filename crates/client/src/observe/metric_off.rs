//! Metrics without a recorder: nothing is computed, kept or sent.

#![allow(clippy::unused_self, reason = "the signatures of `metric`")]

/// A metric. Does nothing without the feature `metrics`.
#[derive(Debug)]
pub struct Metric;

/// One unit of a gauge.
#[derive(Debug)]
#[must_use = "the gauge falls when it is dropped"]
pub struct GaugeUnit;

/// The beginning of a duration.
#[derive(Clone, Copy, Debug)]
pub struct Timer;

impl Metric {
    /// Creates a counter.
    #[must_use]
    pub const fn counter(_: &'static str, _: &'static [&'static str], _: &'static str) -> Self {
        Self
    }

    /// Creates a gauge.
    #[must_use]
    pub const fn gauge(_: &'static str, _: &'static str) -> Self {
        Self
    }

    /// Creates a histogram.
    #[must_use]
    pub const fn histogram(_: &'static str, _: &'static [&'static str], _: &'static str) -> Self {
        Self
    }

    /// Describes these metrics to the recorder.
    pub fn describe_all(_: &[&Self]) {}

    /// Raises a counter by one.
    #[inline]
    pub fn count<const N: usize>(&self, _: impl FnOnce() -> [&'static str; N]) {}

    /// Raises a counter.
    #[inline]
    pub fn count_many<const N: usize>(&self, _: usize, _: impl FnOnce() -> [&'static str; N]) {}

    /// Raises a gauge by one until the result is dropped.
    #[inline]
    pub fn raise(&'static self) -> GaugeUnit {
        GaugeUnit
    }

    /// Records a number in a histogram.
    #[inline]
    pub fn record<const N: usize>(&self, _: usize, _: impl FnOnce() -> [&'static str; N]) {}

    /// Records the seconds since the timer was started in a histogram.
    #[inline]
    pub fn record_since<const N: usize>(&self, _: Timer, _: impl FnOnce() -> [&'static str; N]) {}
}

impl Timer {
    /// Starts a timer.
    #[inline]
    #[must_use]
    pub fn start() -> Self {
        Self
    }
}
