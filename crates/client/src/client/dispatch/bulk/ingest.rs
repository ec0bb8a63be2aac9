//! A stream of mutations that becomes a stream of their progress.

use std::{collections::VecDeque, pin::pin};

use futures::{Stream, StreamExt, stream};

use super::writer::{FailedWrite, Progress, Writer, WriterOptions};
use crate::{client::Table, model::Mutation};

/// The progress of [`Table::ingest`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum IngestEvent {
    /// A mutation failed. Its number is its position in the stream, from 0.
    Failed(FailedWrite),
    /// All mutations before this position are stored, or were reported as failed.
    Watermark(u64),
}

impl Table {
    /// Writes a stream of puts and deletes as a [`Writer`] does, and returns a stream of its
    /// progress: each failure, and a watermark whenever it grows. It ends after the last mutation.
    ///
    /// Mutations are read from the stream only while the returned stream is polled, and only while
    /// the buffer has room: a consumer that stops reading stops the source. A source that has
    /// recorded a watermark can continue from there after a crash. An invalid mutation is a failure
    /// like others.
    ///
    /// Dropping the returned stream cancels the mutations that were not sent; those in flight may
    /// still be applied.
    ///
    /// # Example
    ///
    /// ```
    /// use futures::{StreamExt, stream};
    /// use hbase_client::{IngestEvent, Put, WriterOptions};
    ///
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("events", &["f"], &[]);
    /// # let table = hbase.connect().await?.table("events")?;
    /// let puts = stream::iter(0..1_000).map(|number| Put::new(format!("{number:04}")).cell("f", "q", "v"));
    /// let mut progress = table.ingest(puts, WriterOptions::new());
    /// let mut done = 0;
    /// while let Some(event) = progress.next().await {
    ///     match event {
    ///         IngestEvent::Watermark(number) => done = number,
    ///         IngestEvent::Failed(failed) => eprintln!("{}: {}", failed.number, failed.error),
    ///         _ => {}
    ///     }
    /// }
    /// assert_eq!(done, 1_000);
    /// # Ok(()) });
    /// ```
    pub fn ingest<M: Into<Mutation> + Send>(
        &self,
        mutations: impl Stream<Item = M> + Send,
        options: WriterOptions,
    ) -> impl Stream<Item = IngestEvent> + Send + Unpin {
        let ingest = Ingest {
            source: Box::pin(mutations.fuse()),
            has_ended: false,
            next: None,
            writer: self.writer(options),
            failures: VecDeque::new(),
            watermark: 0,
        };
        let events = stream::unfold(ingest, async |mut ingest| {
            let event = ingest.next().await?;
            Some((event, ingest))
        });
        Box::pin(events)
    }
}

struct Ingest<S> {
    source: S,
    has_ended: bool,
    /// A mutation that waits for room.
    next: Option<Mutation>,
    writer: Writer,
    /// Failures that were not returned yet.
    failures: VecDeque<FailedWrite>,
    /// The last watermark that was returned, or follows the failures.
    watermark: u64,
}

impl<M: Into<Mutation>, S: Stream<Item = M> + Unpin> Ingest<S> {
    async fn next(&mut self) -> Option<IngestEvent> {
        loop {
            if let Some(failed) = self.failures.pop_front() {
                return Some(IngestEvent::Failed(failed));
            }
            let Progress {
                failures,
                watermark,
                is_done,
            } = self.writer.progress();
            // A watermark follows the failures before it.
            if !failures.is_empty() {
                self.failures.extend(failures);
                continue;
            }
            if watermark > self.watermark {
                self.watermark = watermark;
                return Some(IngestEvent::Watermark(watermark));
            }
            if self.has_ended && is_done {
                return None;
            }
            self.advance().await;
        }
    }

    /// Writes the next mutation, or waits until there is progress.
    async fn advance(&mut self) {
        let mut progressed = pin!(self.writer.progressed(self.watermark));
        match self.next.take() {
            Some(mutation) => {
                let written = tokio::select! {
                    biased;
                    written = self.writer.write_despite_failures(&mutation) => Some(written),
                    () = &mut progressed => None,
                };
                match written {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => self.writer.reject(error),
                    None => self.next = Some(mutation),
                }
            }
            None if self.has_ended => progressed.await,
            None => tokio::select! {
                biased;
                mutation = self.source.next() => match mutation {
                    Some(mutation) => self.next = Some(mutation.into()),
                    None => self.has_ended = true,
                },
                () = &mut progressed => {}
            },
        }
    }
}
