//! The steps of one report after it was sharded, for any circuit: decode, ask the crate, encode.

use prio::codec::{Encode as _, ParameterizedDecode as _};
use prio::field::FieldElement as _;
use prio::flp::Type;
use prio::vdaf::prio3::{
    Prio3, Prio3InputShare, Prio3PublicShare, Prio3VerifierMessage, Prio3VerifierShare,
    Prio3VerifyState,
};
use prio::vdaf::xof::XofTurboShake128;
use prio::vdaf::{
    Aggregatable as _, AggregateShare, Aggregator as _, OutputShare, VerifyTransition,
};

use crate::{Begun, Refused, Sharded, NONCE_SIZE, SEED_SIZE, SHARES, VERIFY_KEY_SIZE};

/// What a circuit reads of a measurement; nothing where the measurement is outside the range.
pub type Read<T> = Box<dyn Fn(&[u64]) -> Option<<T as Type>::Measurement> + Send + Sync>;

type State<T> = Prio3VerifyState<<T as prio::flp::Flp>::Field, SEED_SIZE>;
type Share<T> = Prio3VerifierShare<<T as prio::flp::Flp>::Field, SEED_SIZE>;

const PROOF: Refused = Refused::Peer("the proof does not hold: the report is not valid");
const STATE: Refused = Refused::Peer("a state does not decode");
const ADDEND: Refused = Refused::Peer("an output or aggregate share does not decode");

/// `Vdaf`'s methods, once sizes are checked; see there.
pub trait Steps: Send + Sync {
    /// Bytes of a part of the joint randomness; none where the circuit has no joint randomness.
    fn part_size(&self) -> usize;
    /// Bytes of an output share.
    fn out_size(&self) -> usize;
    /// `Vdaf::shard`
    fn shard(
        &self,
        ctx: &[u8],
        measurement: &[u64],
        nonce: &[u8; NONCE_SIZE],
        rand: &[u8],
    ) -> Result<Sharded, Refused>;
    /// `Vdaf::verify_init`
    fn verify_init(
        &self,
        verify_key: &[u8; VERIFY_KEY_SIZE],
        ctx: &[u8],
        agg_id: usize,
        nonce: &[u8; NONCE_SIZE],
        public_share: &[u8],
        input_share: &[u8],
    ) -> Result<Begun, Refused>;
    /// `Vdaf::verifier_shares_to_message`
    fn message(&self, ctx: &[u8], shares: [&[u8]; SHARES]) -> Result<Vec<u8>, Refused>;
    /// `Vdaf::merge`
    fn merge(&self, shares: &[&[u8]]) -> Result<Vec<u8>, Refused>;
    /// `Vdaf::decode_agg_share`
    fn numbers(&self, share: &[u8]) -> Result<Vec<u128>, Refused>;
}

/// A circuit in the crate's form.
pub struct Prio<T: Type> {
    pub algorithm_id: u32,
    pub typ: T,
    pub prio3: Prio3<T, XofTurboShake128, SEED_SIZE>,
    pub read: Read<T>,
}

impl<T: Type + Send + Sync> Steps for Prio<T> {
    fn part_size(&self) -> usize {
        if self.typ.joint_rand_len() == 0 {
            0
        } else {
            SEED_SIZE
        }
    }

    fn out_size(&self) -> usize {
        self.typ.output_len() * T::Field::ENCODED_SIZE
    }

    fn shard(
        &self,
        ctx: &[u8],
        measurement: &[u64],
        nonce: &[u8; NONCE_SIZE],
        rand: &[u8],
    ) -> Result<Sharded, Refused> {
        self.sharded(ctx, measurement, nonce, rand)
    }

    fn verify_init(
        &self,
        verify_key: &[u8; VERIFY_KEY_SIZE],
        ctx: &[u8],
        agg_id: usize,
        nonce: &[u8; NONCE_SIZE],
        public_share: &[u8],
        input_share: &[u8],
    ) -> Result<Begun, Refused> {
        let public = Prio3PublicShare::get_decoded_with_param(&self.prio3, public_share)
            .map_err(|_| Refused::Peer("public share does not decode"))?;
        let input = Prio3InputShare::get_decoded_with_param(&(&self.prio3, agg_id), input_share)
            .map_err(|_| Refused::Peer("input share does not decode"))?;
        let input = self.in_full(ctx, agg_id, input);
        let begun = self
            .prio3
            .verify_init(verify_key, ctx, agg_id, &(), nonce, &public, &input);
        let (state, share) = begun.map_err(|_| Refused::Peer("the report cannot be verified"))?;
        let share = share.get_encoded().map_err(|_| STATE)?;
        Ok((self.stored(ctx, state)?, share))
    }

    fn message(&self, ctx: &[u8], shares: [&[u8]; SHARES]) -> Result<Vec<u8>, Refused> {
        let form = self.form()?;
        let decoded = shares.iter().map(|share| {
            Share::<T>::get_decoded_with_param(&form, share)
                .map_err(|_| Refused::Peer("verifier share does not decode"))
        });
        let decoded = decoded.collect::<Result<Vec<_>, _>>()?;
        let message = self
            .prio3
            .verifier_shares_to_message(ctx, &(), decoded)
            .map_err(|_| PROOF)?;
        message.get_encoded().map_err(|_| PROOF)
    }

    fn merge(&self, shares: &[&[u8]]) -> Result<Vec<u8>, Refused> {
        let mut total = self.prio3.aggregate_init(&());
        for share in shares {
            total.merge(&self.addend(share)?).map_err(|_| ADDEND)?;
        }
        total.get_encoded().map_err(|_| ADDEND)
    }

    fn numbers(&self, share: &[u8]) -> Result<Vec<u128>, Refused> {
        self.addend(share)?; // what decodes has one spelling, so its bytes are the numbers
        let size = T::Field::ENCODED_SIZE;
        let number = |element: &[u8]| {
            element
                .iter()
                .rev()
                .fold(0, |sum, byte| sum << 8 | u128::from(*byte))
        };
        Ok(share.chunks_exact(size).map(number).collect())
    }
}

impl<T: Type + Send + Sync> Prio<T> {
    fn addend(&self, share: &[u8]) -> Result<AggregateShare<T::Field>, Refused> {
        AggregateShare::get_decoded_with_param(&(&self.prio3, &()), share).map_err(|_| ADDEND)
    }

    /// A state of the right form, which the crate decodes verifier shares by.
    fn form(&self) -> Result<State<T>, Refused> {
        let helper = vec![0; SEED_SIZE + self.part_size()];
        State::<T>::get_decoded_with_param(&(&self.prio3, 1), &helper).map_err(|_| STATE)
    }

    /// A state as the Python reference keeps it: the seed of the joint randomness, then the output share.
    ///
    /// The output share comes out of a last step on a message that repeats the state's own seed: it needs no peer.
    fn stored(&self, ctx: &[u8], state: State<T>) -> Result<Vec<u8>, Refused> {
        let encoded = state.get_encoded().map_err(|_| STATE)?;
        let seed = encoded
            .split_at_checked(encoded.len().saturating_sub(self.part_size()))
            .map(|(_, seed)| seed)
            .ok_or(STATE)?;
        let own = Prio3VerifierMessage::get_decoded_with_param(&state, seed).map_err(|_| STATE)?;
        let step = self.prio3.verify_next(ctx, state, own);
        let VerifyTransition::Finish(out) = step.map_err(|_| STATE)? else {
            return Err(STATE);
        };
        let out: OutputShare<T::Field> = out;
        let mut stored = seed.to_vec();
        out.encode(&mut stored).map_err(|_| STATE)?;
        Ok(stored)
    }
}
