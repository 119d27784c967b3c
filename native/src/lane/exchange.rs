//! The requests of a connection that await their responses, and its state between two bytes.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

/// A request that was sent, and awaits its response; or the request that is being received.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exchange {
    /// The API key.
    pub api_key: i16,
    /// Its version.
    pub version: i16,
    /// The client's correlation id.
    pub correlation_id: i32,
    /// When its first bytes were received; 0 if that is not counted.
    pub received_at: f64,
    /// When it was sent, if it was held; otherwise 0.
    pub sent_at: f64,
    /// Whether it was forwarded only when it was complete.
    pub was_held: bool,
}

/// The request of which a part is forwarded.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Receiving {
    /// No request.
    #[default]
    Nothing,
    /// The last request that awaits a response.
    Last,
    /// A request that expects no response.
    WithoutResponse(Exchange),
}

/// The exact state between two bytes, which a connection's owner hands over to the next.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// Bytes of the current request that were not received yet.
    pub request_left: usize,
    /// Which request that is.
    pub receiving: Receiving,
    /// Bytes of the current response that were not received yet.
    pub response_left: usize,
    /// The requests that await their response, in order.
    pub expected: VecDeque<Exchange>,
    /// Whether the broker may not have read a request that has no response.
    pub unconfirmed: bool,
}
