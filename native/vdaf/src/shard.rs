//! A client's side: a measurement in shares, with its proof, from randomness that is an argument; and a helper's share
//! in full.
//!
//! Section 7.2.1 of the draft, for two aggregators. `rand` is the helper's seed and, where the circuit has joint
//! randomness, the helper's and the leader's blind; then the prover's seed.

use prio::field::FieldElement;
use prio::flp::{Flp, Type};
use prio::vdaf::prio3::Prio3InputShare;
use prio::vdaf::xof::{IntoFieldVec as _, Xof, XofTurboShake128};

use crate::steps::{Prio, Steps as _};
use crate::{Refused, Sharded, NONCE_SIZE, SEED_SIZE};

type InputShare<T> = Prio3InputShare<<T as Flp>::Field, SEED_SIZE>;
type Seed = [u8; SEED_SIZE];

const VERSION: u8 = 18; // of the wire format
const CLASS_VDAF: u8 = 0;
const ONE_PROOF: u8 = 1;
const LEADER: u8 = 0;
const HELPER: u8 = 1;

const MEAS_SHARE: u8 = 1;
const PROOF_SHARE: u8 = 2;
const JOINT_RAND: u8 = 3;
const PROVE_RAND: u8 = 4;
const JOINT_RAND_SEED: u8 = 6;
const JOINT_RAND_PART: u8 = 7;

const RAND: Refused = Refused::Caller("rand has not as many bytes as belong");
const RANGE: Refused = Refused::Caller(
    "a measurement has numbers from 0 to the task's most, as many as the task says",
);

impl<T: Type + Send + Sync> Prio<T> {
    /// `Vdaf::shard`
    pub fn sharded(
        &self,
        ctx: &[u8],
        measurement: &[u64],
        nonce: &[u8; NONCE_SIZE],
        rand: &[u8],
    ) -> Result<Sharded, Refused> {
        let measurement = (self.read)(measurement).ok_or(RANGE)?;
        let whole = self
            .typ
            .encode_measurement(&measurement)
            .map_err(|_| RANGE)?;
        let seeds = rand.chunks(SEED_SIZE).map(TryInto::try_into);
        let seeds: Vec<&Seed> = seeds.collect::<Result<_, _>>().map_err(|_| RAND)?;
        let (seed, blinds, prover) = match *seeds.as_slice() {
            [seed, prover] => (seed, None, prover),
            [seed, helper, leader, prover] => (seed, Some([leader, helper]), prover),
            _ => return Err(RAND),
        };
        if blinds.is_some() != (self.part_size() > 0) {
            return Err(RAND);
        }
        let shared = self.expanded(seed, MEAS_SHARE, ctx, &[HELPER], self.typ.input_len());
        let mut leader = encoded(&without(&whole, &shared))?;
        let parts = match blinds {
            Some([of_leader, of_helper]) => vec![
                self.part(of_leader, ctx, LEADER, nonce, &leader),
                self.part(of_helper, ctx, HELPER, nonce, &encoded(&shared)?),
            ],
            None => vec![],
        };
        let public = parts.concat();
        let joint_rand = self.joint_rand(ctx, &public);
        let prove_rand = self.expanded(
            prover,
            PROVE_RAND,
            ctx,
            &[ONE_PROOF],
            self.typ.prove_rand_len(),
        );
        let proof = self
            .typ
            .prove(&whole, &prove_rand, &joint_rand)
            .map_err(|_| RANGE)?;
        let binder = [ONE_PROOF, HELPER];
        let shared_proof = self.expanded(seed, PROOF_SHARE, ctx, &binder, self.typ.proof_len());
        leader.extend(encoded(&without(&proof, &shared_proof))?);
        let mut helper = seed.to_vec();
        if let Some([of_leader, of_helper]) = blinds {
            leader.extend(of_leader);
            helper.extend(of_helper);
        }
        Ok((public, [leader, helper]))
    }

    /// A helper's share as long as a leader's. The crate would keep its seed, and expand it a second time at the end.
    pub fn in_full(&self, ctx: &[u8], agg_id: usize, share: InputShare<T>) -> InputShare<T> {
        let (seed, joint_rand_blind) = match share {
            Prio3InputShare::Helper {
                meas_and_proofs_share,
                joint_rand_blind,
            } if agg_id == usize::from(HELPER) => (meas_and_proofs_share, joint_rand_blind),
            leader => return leader,
        };
        let (seed, lengths) = (seed.as_ref(), (self.typ.input_len(), self.typ.proof_len()));
        Prio3InputShare::Leader {
            measurement_share: self.expanded(seed, MEAS_SHARE, ctx, &[HELPER], lengths.0),
            proofs_share: self.expanded(seed, PROOF_SHARE, ctx, &[ONE_PROOF, HELPER], lengths.1),
            joint_rand_blind,
        }
    }

    fn xof(&self, seed: &Seed, usage: u8, ctx: &[u8]) -> XofTurboShake128 {
        let [a, b, c, d] = self.algorithm_id.to_be_bytes();
        XofTurboShake128::init(seed, &[&[VERSION, CLASS_VDAF, a, b, c, d, 0, usage], ctx])
    }

    fn expanded(
        &self,
        seed: &Seed,
        usage: u8,
        ctx: &[u8],
        binder: &[u8],
        length: usize,
    ) -> Vec<T::Field> {
        let mut xof = self.xof(seed, usage, ctx);
        xof.update(binder);
        xof.into_seed_stream().into_field_vec(length)
    }

    /// What an aggregator adds to the joint randomness: bound to its share.
    fn part(
        &self,
        blind: &Seed,
        ctx: &[u8],
        agg_id: u8,
        nonce: &[u8; NONCE_SIZE],
        share: &[u8],
    ) -> Seed {
        let mut xof = self.xof(blind, JOINT_RAND_PART, ctx);
        xof.update(&[agg_id]);
        xof.update(nonce);
        xof.update(share);
        *xof.into_seed().as_ref()
    }

    fn joint_rand(&self, ctx: &[u8], parts: &[u8]) -> Vec<T::Field> {
        let mut xof = self.xof(&[0; SEED_SIZE], JOINT_RAND_SEED, ctx);
        xof.update(parts);
        let seed = xof.into_seed();
        self.expanded(
            seed.as_ref(),
            JOINT_RAND,
            ctx,
            &[ONE_PROOF],
            self.typ.joint_rand_len(),
        )
    }
}

fn without<F: FieldElement>(whole: &[F], share: &[F]) -> Vec<F> {
    whole
        .iter()
        .zip(share)
        .map(|(all, taken)| *all - *taken)
        .collect()
}

fn encoded<F: FieldElement>(elements: &[F]) -> Result<Vec<u8>, Refused> {
    let mut out = Vec::with_capacity(elements.len() * F::ENCODED_SIZE);
    for element in elements {
        element.encode(&mut out).map_err(|_| RANGE)?;
    }
    Ok(out)
}
