//! Messages on the wire, decoded if they do not take too much memory.

use std::marker::PhantomData;

use bytes::Buf as _;
use prost::{Message, Name};
use tonic::Status;
use tonic::codec::{BufferSettings, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

use super::errors::to_status;
use crate::wire;

/// Protobuf, as any server has it, but for what [`wire::weigh`] refuses.
#[derive(Debug)]
pub struct Codec<Encode, Decode>(PhantomData<(Encode, Decode)>);

/// The half of it that decodes.
#[derive(Debug)]
pub struct Weighed<M>(ProstDecoder<M>);

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
    type Decoder = Weighed<Decode>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<Encode, Decode>::raw_encoder(BufferSettings::default())
    }

    fn decoder(&mut self) -> Self::Decoder {
        Weighed(ProstCodec::<Encode, Decode>::raw_decoder(
            BufferSettings::default(),
        ))
    }
}

impl<M: Message + Name + Default> Decoder for Weighed<M> {
    type Item = M;
    type Error = Status;

    fn decode(&mut self, encoded: &mut DecodeBuf<'_>) -> Result<Option<M>, Status> {
        // tonic gives a message in one piece. Of more than one, the first would be weighed, and the limits that hold
        // after decoding are left.
        wire::weigh::<M>(encoded.chunk()).map_err(|error| to_status(&error))?;
        self.0.decode(encoded)
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}
