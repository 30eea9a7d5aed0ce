//! Messages on the wire, decoded if they do not take too much memory.

use std::marker::PhantomData;

use bytes::Buf as _;
use prost::{Message, Name};
use tonic::Status;
use tonic::codec::{BufferSettings, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstEncoder};

use super::errors::to_status;
use crate::wire;

/// Protobuf, as any server has it, but for what takes too much memory.
#[derive(Debug)]
pub struct Codec<Encode, Decode>(PhantomData<(Encode, Decode)>);

/// The half of it that decodes.
#[derive(Debug)]
pub struct SizeLimitedDecoder<M>(PhantomData<M>);

impl<Encode, Decode> Default for Codec<Encode, Decode> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<Encode, Decode> tonic::codec::Codec for Codec<Encode, Decode>
where
    Encode: Message + Send + 'static,
    Decode: Message + Name + Default + Send + 'static,
{
    type Encode = Encode;
    type Decode = Decode;
    type Encoder = ProstEncoder<Encode>;
    type Decoder = SizeLimitedDecoder<Decode>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<Encode, Decode>::raw_encoder(BufferSettings::default())
    }

    fn decoder(&mut self) -> Self::Decoder {
        SizeLimitedDecoder(PhantomData)
    }
}

impl<M: Message + Name + Default> Decoder for SizeLimitedDecoder<M> {
    type Item = M;
    type Error = Status;

    fn decode(&mut self, encoded: &mut DecodeBuf<'_>) -> Result<Option<M>, Status> {
        // Taken out whole: reading each field off tonic's buffer takes far longer. Nothing is copied.
        let encoded = encoded.copy_to_bytes(encoded.remaining());
        let decoded = wire::decode(encoded).map_err(|error| to_status(&error))?;
        Ok(Some(decoded))
    }
}
