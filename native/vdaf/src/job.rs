//! A whole aggregation job in one call: check what is signed of each report, open its share, decode it, verify it; on
//! every core.
//!
//! A report that is bad is a value in the answer and stops no other; so is one that code of the crates panics on.

use std::num::NonZeroUsize;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};

use interlock_membership::{Claim, Keys};

use crate::hpke::{KeyPair, Receiver};
use crate::{Refused, Vdaf};

const INITIALIZE: u8 = 0; // types of ping-pong messages
const FINISH: u8 = 2;
const FRAME: Refused = Refused::Peer("a ping-pong message of the wrong type or length");
const LEAST: usize = 4; // reports that a further thread is worth

/// What all reports of a job share.
pub struct Job<'a> {
    /// The key that the aggregators share.
    pub verify_key: &'a [u8],
    /// The application's context.
    pub ctx: &'a [u8],
    /// What shares of this aggregator are sealed under.
    pub info: &'a [u8],
}

/// One report of a job, as an aggregator has it.
pub struct SealedShare<'a> {
    /// The report's nonce.
    pub nonce: &'a [u8],
    /// The report's public share.
    pub public_share: &'a [u8],
    /// The key that the input share is sealed to.
    pub key: KeyPair<'a>,
    /// The encapsulated key.
    pub enc: &'a [u8],
    /// The sealed input share.
    pub payload: &'a [u8],
    /// The data that it is sealed with.
    pub aad: &'a [u8],
    /// The leader's ping-pong message; the helper's jobs only.
    pub inbound: &'a [u8],
    /// What has to be signed for the report to be let in; none where nothing has.
    pub claims: Vec<Claim<'a>>,
}

/// Why a report drops out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// One of its signatures does not hold.
    Unsigned,
    /// Its share does not open.
    Sealed,
    /// What is in it is no input share without extensions.
    Malformed,
    /// It does not verify.
    Invalid,
}

impl Fault {
    /// As `interlock.dap.backend.Fault` spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unsigned => "unsigned",
            Self::Sealed => "sealed",
            Self::Malformed => "malformed",
            Self::Invalid => "invalid",
        }
    }
}

/// What became of a report: two parts, or why it drops out.
pub type Verdict = Result<(Vec<u8>, Vec<u8>), Fault>;

impl Vdaf {
    /// The leader's first step of each report: a state and the ping-pong message to the helper.
    ///
    /// # Errors
    /// `Caller`, for a key, a context or a nonce of the wrong size.
    pub fn leader_job(
        &self,
        job: &Job<'_>,
        reports: &[SealedShare<'_>],
    ) -> Result<Vec<Verdict>, Refused> {
        run(job, reports, |report, share| {
            let Job {
                verify_key, ctx, ..
            } = job;
            let (state, own) =
                self.verify_init(verify_key, ctx, 0, report.nonce, report.public_share, share)?;
            Ok((state, frame(INITIALIZE, &own)?))
        })
    }

    /// The helper's only step of each report: an output share and the ping-pong message to the leader.
    ///
    /// # Errors
    /// `Caller`, for a key, a context or a nonce of the wrong size.
    pub fn helper_job(
        &self,
        job: &Job<'_>,
        reports: &[SealedShare<'_>],
    ) -> Result<Vec<Verdict>, Refused> {
        run(job, reports, |report, share| {
            let Job {
                verify_key, ctx, ..
            } = job;
            let (state, own) =
                self.verify_init(verify_key, ctx, 1, report.nonce, report.public_share, share)?;
            let message = self.verifier_shares_to_message(ctx, &[item(report.inbound)?, &own])?;
            Ok((
                self.verify_next(&state, &message)?,
                frame(FINISH, &message)?,
            ))
        })
    }
}

fn run<F>(job: &Job<'_>, reports: &[SealedShare<'_>], step: F) -> Result<Vec<Verdict>, Refused>
where
    F: Fn(&SealedShare<'_>, &[u8]) -> Result<(Vec<u8>, Vec<u8>), Refused> + Sync,
{
    crate::demand_key(job.verify_key)?;
    crate::demand_context(job.ctx)?;
    for report in reports {
        crate::sized_nonce(report.nonce)?;
    }
    let receiver = Receiver::new(job.info);
    let keys = Keys::of(reports.iter().flat_map(|report| &report.claims));
    let verdict = |report: &SealedShare<'_>| {
        demand_all(&keys, &report.claims)?;
        let plain = receiver.open(&report.key, report.enc, report.aad, report.payload);
        let plain = plain.ok_or(Fault::Sealed)?;
        let share = input_share(&plain).ok_or(Fault::Malformed)?;
        step(report, share).map_err(|_| Fault::Invalid)
    };
    Ok(on_every_core(reports, |report| {
        catch_unwind(AssertUnwindSafe(|| verdict(report))).unwrap_or(Err(Fault::Invalid))
    }))
}

/// The places of the reports that have a signature which does not hold, of the claims of each; on every core.
#[must_use]
pub fn failing(reports: &[Vec<Claim<'_>>]) -> Vec<usize> {
    let keys = Keys::of(reports.iter().flatten());
    let found = on_every_core(reports, |claims| {
        let judged = catch_unwind(AssertUnwindSafe(|| demand_all(&keys, claims)));
        judged.unwrap_or(Err(Fault::Unsigned))
    });
    let places = found.iter().enumerate();
    places
        .filter_map(|(at, found)| found.is_err().then_some(at))
        .collect()
}

fn demand_all(keys: &Keys<'_>, claims: &[Claim<'_>]) -> Result<(), Fault> {
    let holds = |each: &Claim<'_>| keys.verify(each).map_err(|_| Fault::Unsigned);
    claims.iter().try_for_each(holds)
}

/// A ping-pong message: its type, then its one item behind its length (VDAF, 5.7.1).
fn frame(kind: u8, item: &[u8]) -> Result<Vec<u8>, Refused> {
    let size = u32::try_from(item.len()).map_err(|_| FRAME)?;
    Ok([&[kind][..], &size.to_be_bytes(), item].concat())
}

/// The item of a leader's first message.
fn item(frame: &[u8]) -> Result<&[u8], Refused> {
    let items = frame.strip_prefix(&[INITIALIZE]);
    items.and_then(prefixed).ok_or(FRAME)
}

/// What is behind its own length, and has nothing behind it.
fn prefixed(data: &[u8]) -> Option<&[u8]> {
    let (size, rest) = data.split_first_chunk()?;
    (u32::from_be_bytes(*size) as usize == rest.len()).then_some(rest)
}

/// The input share of a `PlaintextInputShare` without extensions (DAP, 4.4.2).
fn input_share(plain: &[u8]) -> Option<&[u8]> {
    let share = prefixed(plain.strip_prefix(&[0, 0])?)?;
    (!share.is_empty()).then_some(share)
}

/// What `each` makes of every item, in their order; idle threads take the next item.
fn on_every_core<T: Sync, R: Send>(items: &[T], each: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let others = cores.min(items.len() / LEAST).saturating_sub(1);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            match items.get(at) {
                Some(item) => done.push((at, each(item))),
                None => return done,
            }
        }
    };
    let mut done = std::thread::scope(|scope| {
        // where the system gives no thread, the others do its work
        let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
        let threads: Vec<_> = (0..others).filter_map(spawn).collect();
        let mut done = work();
        for thread in threads {
            done.extend(thread.join().unwrap_or_default()); // `each` catches what panics
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::{input_share, item, on_every_core};

    #[test]
    fn answers_stand_in_the_order_of_the_questions() {
        let items: Vec<usize> = (0..1000).collect();
        let doubled: Vec<usize> = items.iter().map(|item| item * 2).collect();
        assert_eq!(on_every_core(&items, |item| item * 2), doubled);
        assert_eq!(
            on_every_core(&[], |item: &usize| *item),
            Vec::<usize>::new()
        );
    }

    #[test]
    fn a_share_and_a_message_have_one_spelling() {
        assert_eq!(input_share(&[0, 0, 0, 0, 0, 1, 7]), Some(&[7][..]));
        for bad in [
            &[0, 0, 0, 0, 0, 0][..],
            &[0, 0, 0, 0, 0, 1, 7, 7],
            &[0, 1, 0, 0, 0, 1, 7],
        ] {
            assert_eq!(input_share(bad), None);
        }
        assert_eq!(item(&[0, 0, 0, 0, 1, 7]), Ok(&[7][..]));
        assert!(item(&[2, 0, 0, 0, 1, 7]).is_err());
        assert!(item(&[0, 0, 0, 0, 2, 7]).is_err());
    }
}
