//! The life of a call: arrival, execution and answer, each at its time.

use std::{sync::Arc, time::Duration};

use bytes::BytesMut;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};

use super::{
    faults::Action, plan::Plan, server_life::ServerLife, signal::Signal, state::Shared, trace::Event,
};
use crate::{
    cluster::{self, Answer},
    exception::Result,
};

/// What an answer with a wrong call id adds to the right one.
const WRONG_CALL_ID: u32 = 1 << 30;

/// What a connection sends.
#[derive(Debug)]
pub(super) enum Outgoing {
    Frame(BytesMut),
    /// Sends this, and closes the connection.
    Last(BytesMut),
}

/// A call on its way. It goes on if the client hangs up, and ends with the server.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) shared: Arc<Shared>,
    pub(super) call: cluster::Call,
    pub(super) plan: Plan,
    pub(super) life: ServerLife,
    pub(super) answers: mpsc::UnboundedSender<Outgoing>,
}

impl Delivery {
    pub(super) async fn run(mut self) {
        let applied = self.plan.applied.take();
        let (action, released) = applied.map(|applied| (applied.action, applied.released)).unzip();
        let released = released.flatten();
        if let Err(reason) = self.deliver(action.as_ref(), released).await {
            let call = self.plan.call;
            self.shared.lock().record(Event::Dropped { call, reason });
        }
    }

    /// Returns the reason if the call is not executed or not answered.
    async fn deliver(
        &mut self,
        action: Option<&Action>,
        released: Option<Signal<bool>>,
    ) -> Result<(), &'static str> {
        match action {
            Some(Action::LoseRequest) => return Err("request lost"),
            Some(Action::CloseBefore) => {
                self.send(Outgoing::Last(BytesMut::new()));
                return Err("connection closed before execution");
            }
            Some(Action::DelayRequest(delay)) => self.pass(*delay).await?,
            Some(Action::HoldRequest) => self.wait_for(released.clone()).await?,
            _ => {}
        }
        self.pass(self.plan.request).await?;
        let arrived = Instant::now();
        if let Some(Action::DelayInQueue(delay)) = action {
            self.pass(*delay).await?;
        }
        self.pass(self.plan.queue).await?;
        let outcome = self.execute(action, Some(arrived)).await?;
        match action {
            Some(Action::DeliverTwice { later }) => self.again(*later),
            Some(Action::LoseAnswer) => return Err("answer lost"),
            Some(Action::CloseAfter) => {
                self.send(Outgoing::Last(BytesMut::new()));
                return Err("connection closed after execution");
            }
            Some(Action::DelayAnswer(delay)) => self.pass(*delay).await?,
            Some(Action::HoldAnswer) => self.wait_for(released).await?,
            _ => {}
        }
        self.pass(self.plan.answer).await?;
        self.answer(&outcome, action);
        if let Some(Action::AnswerTwice { later }) = action {
            self.pass(*later).await?;
            self.answer(&outcome, action);
        }
        Ok(())
    }

    /// Executes the call, unless its timeout has passed since it arrived.
    async fn execute(
        &mut self,
        action: Option<&Action>,
        arrived: Option<Instant>,
    ) -> Result<Result<Answer>, &'static str> {
        loop {
            if !self.life.runs().await {
                return Err("server ended");
            }
            if let (Some(timeout), Some(arrived)) = (self.call.timeout, arrived)
                && arrived.elapsed() > timeout
            {
                return Err("timed out before execution");
            }
            let mut state = self.shared.lock();
            // It may have stopped since.
            if let Some(outcome) = state.execute(&self.call, self.plan.call, &self.life, action) {
                return Ok(outcome);
            }
            state.update_lives();
        }
    }

    /// Executes the call a second time, and answers nothing.
    fn again(&self, later: Duration) {
        let mut second = Self {
            shared: Arc::clone(&self.shared),
            call: self.call.clone(),
            plan: Plan {
                call: self.plan.call,
                applied: None,
                ..self.plan
            },
            life: self.life.clone(),
            answers: self.answers.clone(),
        };
        tokio::spawn(async move {
            let executed = async {
                second.pass(later).await?;
                second.execute(None, None).await
            };
            let reason = match executed.await {
                Ok(_) => "answer of the second execution",
                Err(reason) => reason,
            };
            let call = second.plan.call;
            second.shared.lock().record(Event::Dropped { call, reason });
        });
    }

    fn answer(&self, outcome: &Result<Answer>, action: Option<&Action>) {
        let id = match action {
            Some(Action::WrongCallId) => self.call.id.wrapping_add(WRONG_CALL_ID),
            _ => self.call.id,
        };
        let mut frame = BytesMut::new();
        self.shared.lock().answer(self.plan.call, id, outcome, &mut frame);
        if action == Some(&Action::CutAnswer) {
            frame.truncate(frame.len() / 2);
            self.send(Outgoing::Last(frame));
        } else {
            self.send(Outgoing::Frame(frame));
        }
    }

    fn send(&self, outgoing: Outgoing) {
        // The connection is gone if the client has hung up.
        let _ = self.answers.send(outgoing);
    }

    /// Lets time pass. A timer would round no time up to a millisecond.
    async fn pass(&mut self, time: Duration) -> Result<(), &'static str> {
        if time.is_zero() {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = self.life.ends() => Err("server ended"),
            () = sleep(time) => Ok(()),
        }
    }

    /// Waits until the calls that are held are released.
    async fn wait_for(&mut self, released: Option<Signal<bool>>) -> Result<(), &'static str> {
        let Some(released) = released else {
            return Ok(());
        };
        tokio::select! {
            biased;
            () = self.life.ends() => Err("server ended"),
            // The cluster keeps the sender.
            _ = released.wait_for(|released| released) => Ok(()),
        }
    }
}
