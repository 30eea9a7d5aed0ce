//! Messages on the wire, decoded if they do not take too much memory.

use std::marker::PhantomData;

use bytes::Buf as _;
use prost::{Message, Name};
use tonic::Status;
use tonic::codec::{BufferSettings, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstEncoder};

use crate::server::call::cancellation::Current;
use crate::server::call::errors::to_status;
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
        let current = Current::get();
        // In the service that has been seen to when the request arrived.
        let estimated = match current.is_call() {
            true => Ok(()),
            false => wire::estimate::estimate::<M>(&encoded).map(|_| ()),
        };
        estimated
            .and_then(|()| wire::decode(encoded, &current))
            .map(Some)
            .map_err(|error| to_status(&error))
    }
}
