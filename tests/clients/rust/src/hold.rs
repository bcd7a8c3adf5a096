//! Messages on which an application works until a test releases them.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, PoisonError};

use tokio::task;

static RELEASED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static CHANGED: Condvar = Condvar::new();

/// Wait until the test releases this body.
pub fn wait(body: &str) {
    task::block_in_place(|| {
        let released = RELEASED.lock().unwrap_or_else(PoisonError::into_inner);
        drop(CHANGED.wait_while(released, |released| !released.contains(body)));
    });
}

/// The call of a test.
pub fn release(body: String) {
    RELEASED.lock().unwrap_or_else(PoisonError::into_inner).insert(body);
    CHANGED.notify_all();
}
