//! A relay that looks at nothing: what moving the bytes costs on this machine.
//!
//! `relay HOST:PORT LISTEN` listens on the address `LISTEN`, prints `ready PORT`, and moves bytes
//! until it is ended: two threads a connection, which wait in the system's calls.
#![forbid(unsafe_code)]

use std::env;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

const READ_BYTES: usize = 256 * 1024;

fn forward(mut from: TcpStream, mut to: TcpStream) {
    let mut room = vec![0_u8; READ_BYTES];
    while let Ok(count) = from.read(&mut room) {
        if count == 0 || to.write_all(&room[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

fn main() -> io::Result<()> {
    let mut arguments = env::args().skip(1);
    let upstream = arguments.next().expect("HOST:PORT of a broker");
    let listener = TcpListener::bind(arguments.next().expect("HOST:PORT to listen on"))?;
    println!("ready {}", listener.local_addr()?.port());
    for client in listener.incoming() {
        let (client, broker) = (client?, TcpStream::connect(&upstream)?);
        client.set_nodelay(true)?;
        broker.set_nodelay(true)?;
        let other_way = (broker.try_clone()?, client.try_clone()?);
        thread::spawn(move || forward(client, broker));
        thread::spawn(move || forward(other_way.0, other_way.1));
    }
    Ok(())
}
