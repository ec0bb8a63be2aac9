use crate::error::*;

#[test]
fn is_one_pointer_wide_and_sendable() {
    fn sendable<T: Send + Sync + 'static>() {}
    sendable::<Error>();
    assert_eq!(size_of::<Error>(), size_of::<usize>());
    assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
}

#[test]
fn error_has_the_attempt_the_place_the_answer_and_a_hint() {
    let error = Error::new(ErrorKind::Server, "the server refused")
        .at_operation("put")
        .at_table(&"orders")
        .at_row(&"xxxabc")
        .at_server(&"rs3:16020")
        .at_attempt(2)
        .with_remote(RemoteException {
            class: "java.io.IOException".into(),
            message: "no luck".into(),
            trace: String::new(),
        })
        .with_hint("look at the server's log")
        .with_effect(Effect::Unknown);
    assert_eq!(
        error.to_string(),
        "put, table orders, row xxxabc, server rs3:16020, attempt 2: the server refused: IOException: no luck; \
         it may have been applied; look at the server's log"
    );
}

#[test]
fn message_tells_of_no_effect_until_one_is_possible() {
    let error = Error::new(ErrorKind::DeadlineExceeded, "gave up").tell_no_effect();
    assert_eq!(error.to_string(), "gave up; nothing was applied");
    let error = error.with_effect(Effect::Unknown);
    assert_eq!(error.to_string(), "gave up; it may have been applied");
}

#[test]
fn unknown_outcome_is_told_once() {
    let inner = Error::new(ErrorKind::ConnectionLost, "the connection ended").with_effect(Effect::Unknown);
    let outer = Error::new(ErrorKind::DeadlineExceeded, "gave up").with_source(inner);
    assert_eq!(
        outer.with_effect(Effect::Unknown).to_string(),
        "gave up: the connection ended; it may have been applied"
    );
}

#[test]
fn effect_of_a_cause_is_omitted_if_nothing_was_applied() {
    let lost = Error::new(ErrorKind::ConnectionLost, "the connection ended")
        .with_effect(Effect::Unknown)
        .with_hint("read it back");
    let probe = Error::new(ErrorKind::DeadlineExceeded, "gave up")
        .tell_no_effect()
        .with_source(lost)
        .with_effect(Effect::Unknown);
    assert_eq!(
        probe.clone().with_effect(Effect::None).to_string(),
        "gave up: the connection ended; read it back; nothing was applied"
    );
    let outer = Error::new(ErrorKind::DeadlineExceeded, "not sent").with_source(probe);
    assert_eq!(
        outer.to_string(),
        "not sent: gave up: the connection ended; read it back"
    );
}

#[test]
fn long_message_is_displayed_shortened_and_kept_whole() {
    let remote = RemoteException {
        class: "java.io.IOException".into(),
        message: "é".repeat(10_000),
        trace: String::new(),
    };
    let error = Error::new(ErrorKind::Server, "the server answered").with_remote(remote);
    let text = error.to_string();
    assert!(text.ends_with("éé…") && text.chars().count() < 400, "{text}");
    assert_eq!(error.remote().unwrap().message.chars().count(), 10_000);
}

#[test]
fn an_outer_layer_never_overwrites_what_an_inner_one_knew() {
    let error = Error::invalid("bad").at_row(&"inner").at_row(&"outer");
    assert!(error.to_string().contains("inner") && !error.to_string().contains("outer"));
}

#[test]
fn partition_replaces_its_first_key_and_no_other_row() {
    let error = |row: &str| {
        let error = Error::invalid("bad").at_operation("transaction").at_row(&row);
        error.at_partition(&"anna", &"anna/").to_string()
    };
    assert_eq!(error("anna/"), "transaction, partition anna: bad");
    assert_eq!(error("anna/1"), "transaction, row anna/1: bad");
    let error = Error::invalid("bad").at_partition(&"anna", &"anna/");
    assert_eq!(error.to_string(), "partition anna: bad");
}

#[test]
fn an_unknown_outcome_is_never_retryable() {
    let error = Error::new(ErrorKind::ConnectionLost, "gone").with_retryable(true);
    assert!(error.is_retryable());
    assert!(!error.with_effect(Effect::Unknown).is_retryable());
}
