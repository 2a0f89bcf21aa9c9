//! Prio3 over the crate `prio` (draft-irtf-cfrg-vdaf-18, wire version 18): bytes in, bytes out, two aggregators.
//!
//! A task's algorithm and `vdaf_configuration` make a [`Vdaf`], and each step of a report is a method of it. Every byte
//! is the one that the Python reference gives, states included, so that a report begun on one of them can be finished
//! on the other. Field arithmetic, proofs and the expanding function are the crate's; `shard` puts them together here,
//! for the crate takes no randomness as an argument.

mod config;
mod hpke;
mod job;
mod shard;
mod steps;

use subtle::ConstantTimeEq as _;

pub use hpke::KeyPair;
pub use interlock_membership::{Claim, Scheme};
pub use job::{failing, Fault, Job, SealedShare, Verdict};
use steps::Steps;

/// Bytes of a report's nonce; in DAP it is the report ID.
pub const NONCE_SIZE: usize = 16;
/// Bytes of the key that the aggregators share.
pub const VERIFY_KEY_SIZE: usize = SEED_SIZE;
/// Bytes of a seed, a blind and a part of the joint randomness.
pub const SEED_SIZE: usize = 32;
/// How many aggregators there are.
pub const SHARES: usize = 2;

const CONTEXT_MOST: usize = 0xFFFF - 8; // bytes: a domain separation tag has a length of 16 bits

/// Why a step is refused, and nothing of what it was given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refused {
    /// What the calling program got wrong: a size, a measurement outside the range, an aggregator that is none.
    Caller(&'static str),
    /// What a peer sent and does not decode or does not verify: its report drops out.
    Peer(&'static str),
}

/// What `shard` gives: the public share, then the leader's and the helper's input share.
pub type Sharded = (Vec<u8>, [Vec<u8>; SHARES]);
/// What `verify_init` gives: a state to keep, a verifier share to send.
pub type Begun = (Vec<u8>, Vec<u8>);

/// One Prio3 type with its parameters fixed.
pub struct Vdaf {
    steps: Box<dyn Steps>,
}

impl Vdaf {
    /// The VDAF of a task's `vdaf_type` and `vdaf_configuration`.
    ///
    /// # Errors
    /// `Peer`, for a type or parameters that cannot be set up.
    pub fn new(algorithm_id: u32, config: &[u8]) -> Result<Self, Refused> {
        let steps = config::steps_of(algorithm_id, config)?;
        Ok(Self { steps })
    }

    /// How many random bytes `shard` takes.
    #[must_use]
    pub fn rand_size(&self) -> usize {
        SHARES * (SEED_SIZE + self.steps.part_size())
    }

    /// A measurement in shares, with its proof.
    ///
    /// # Errors
    /// `Caller`.
    pub fn shard(
        &self,
        ctx: &[u8],
        measurement: &[u64],
        nonce: &[u8],
        rand: &[u8],
    ) -> Result<Sharded, Refused> {
        demand_context(ctx)?;
        if rand.len() != self.rand_size() {
            return Err(Refused::Caller("rand has not as many bytes as belong"));
        }
        self.steps
            .shard(ctx, measurement, sized_nonce(nonce)?, rand)
    }

    /// Begin to verify one report.
    ///
    /// # Errors
    /// `Caller`, `Peer`.
    pub fn verify_init(
        &self,
        verify_key: &[u8],
        ctx: &[u8],
        agg_id: usize,
        nonce: &[u8],
        public_share: &[u8],
        input_share: &[u8],
    ) -> Result<Begun, Refused> {
        demand_context(ctx)?;
        let key = demand_key(verify_key)?;
        if agg_id >= SHARES {
            return Err(Refused::Caller("aggregators are numbered from 0 to 1"));
        }
        let nonce = sized_nonce(nonce)?;
        self.steps
            .verify_init(key, ctx, agg_id, nonce, public_share, input_share)
    }

    /// Judge the proof from the verifier shares, in the order of aggregators.
    ///
    /// # Errors
    /// `Caller`, `Peer`.
    pub fn verifier_shares_to_message(
        &self,
        ctx: &[u8],
        shares: &[&[u8]],
    ) -> Result<Vec<u8>, Refused> {
        demand_context(ctx)?;
        self.steps.message(ctx, demand_shares(shares)?)
    }

    /// The output share of a report whose proof holds: what the state has behind the seed that the message repeats.
    ///
    /// # Errors
    /// `Peer`.
    pub fn verify_next(&self, state: &[u8], message: &[u8]) -> Result<Vec<u8>, Refused> {
        let (seed, out_share) = state
            .split_at_checked(self.steps.part_size())
            .filter(|(_, out_share)| out_share.len() == self.steps.out_size())
            .ok_or(Refused::Peer("a state does not decode"))?;
        if bool::from(seed.ct_eq(message)) {
            Ok(out_share.to_vec())
        } else {
            Err(Refused::Peer(
                "the joint randomness is not that of the shares: the report is not valid",
            ))
        }
    }

    /// The sum of output shares or of aggregate shares; of none, the share that adds nothing.
    ///
    /// # Errors
    /// `Peer`.
    pub fn merge(&self, shares: &[&[u8]]) -> Result<Vec<u8>, Refused> {
        self.steps.merge(shares)
    }

    /// The field elements of an aggregate share.
    ///
    /// # Errors
    /// `Peer`.
    pub fn decode_agg_share(&self, share: &[u8]) -> Result<Vec<u128>, Refused> {
        self.steps.numbers(share)
    }
}

fn demand_context(ctx: &[u8]) -> Result<(), Refused> {
    if ctx.len() > CONTEXT_MOST {
        return Err(Refused::Caller(
            "the application's context is too long for a domain separation tag",
        ));
    }
    Ok(())
}

fn demand_key(key: &[u8]) -> Result<&[u8; VERIFY_KEY_SIZE], Refused> {
    let sized = key.try_into();
    sized.map_err(|_| Refused::Caller("verify key has not as many bytes as belong"))
}

fn sized_nonce(nonce: &[u8]) -> Result<&[u8; NONCE_SIZE], Refused> {
    let sized = nonce.try_into();
    sized.map_err(|_| Refused::Caller("nonce has not as many bytes as belong"))
}

fn demand_shares<'a>(shares: &[&'a [u8]]) -> Result<[&'a [u8]; SHARES], Refused> {
    let sized = shares.try_into();
    sized.map_err(|_| Refused::Caller("not one share of each of 2 aggregators"))
}

#[cfg(test)]
mod tests;
