// kafkajs: what librdkafka.py does, with the same arguments and lines.
'use strict'

const { Kafka, logLevel } = require('kafkajs')

const KEYS = 10
const BATCH = 5
const PARTITIONS = 3 // more are added
const TRANSACTION = 12
const REFUSALS = new Set(['INVALID_RECORD', 'POLICY_VIOLATION'])
const [bootstrap, rate, , ...producers] = process.argv.slice(2)
let over = false

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

// What was wrong at last stands in the cause, where retries have ended.
const typeOf = (error) => error.type || (error.cause && typeOf(error.cause)) || error.name || 'Error'

class Sender {
  constructor (argument) {
    [this.name, this.kind, this.topic, this.mix] = argument.split(',')
    this.number = 0
    this.run = 0
    this.begun = Date.now()
  }

  note (event, numbers = '', why = '') {
    const at = (Date.now() / 1000).toFixed(3)
    const text = String(why).replace(/\s+/g, ' ').slice(0, 200)
    process.stdout.write([this.name, this.run, event, numbers, at, text].join('\t') + '\n')
  }

  async pace () {
    const due = this.number * 1000 / Number(rate)
    const now = Date.now()
    const ahead = this.begun + due - now
    this.begun = Math.max(this.begun, now - due - 200)
    if (ahead > 0) await sleep(ahead)
  }

  // With a partition of its own: kafkajs 2.2 chooses one for each attempt (sendMessages.js), and
  // takes back the sequence numbers of the last. If partitions are added in between, it stores a
  // batch in two, and gives the next batch in the first one numbers that the broker knows.
  next (key) {
    const letter = this.mix[this.number % this.mix.length]
    const partition = Number(key.slice(1)) % PARTITIONS
    return { key, partition, value: `${letter}:${this.name}:${this.run}:${this.number++}` }
  }

  // A call of `send` is answered as a whole: so it has one key, and goes to one partition.
  async steady (producer) {
    while (!over) {
      await this.pace()
      const first = this.number
      const key = 'k' + (Math.floor(first / BATCH) % KEYS)
      const messages = Array.from({ length: BATCH }, () => this.next(key))
      let event = 'acknowledged'
      let failed
      try {
        await producer.send({ topic: this.topic, messages, acks: -1, timeout: 20000 })
      } catch (error) {
        failed = error
        event = REFUSALS.has(typeOf(error)) ? 'refused' : 'unknown'
      }
      for (let number = first; number < this.number; number++) {
        this.note(event, number, failed ? typeOf(failed) : '')
      }
      if (failed && this.kind !== 'plain') throw failed
    }
  }

  async transact (producer) {
    while (!over) {
      const transaction = await producer.transaction()
      const first = this.number
      let isCommitting = false
      try {
        for (let i = 0; i < TRANSACTION; i += 4) {
          await this.pace()
          const messages = Array.from({ length: 4 }, () => this.next('k' + (i % KEYS)))
          await transaction.send({ topic: this.topic, messages, timeout: 20000 })
        }
        isCommitting = true
        await transaction.commit()
        this.note('committed', `${first}-${this.number - 1}`)
      } catch (error) {
        this.note('unknown', `${first}-${this.number - 1}`, typeOf(error))
        await transaction.abort()
        if (!isCommitting) this.note('aborted', `${first}-${this.number - 1}`)
        throw error // its transactions are no more to be used after a failure
      }
    }
  }

  async once () {
    const kafka = new Kafka({
      clientId: this.name,
      brokers: [bootstrap],
      logLevel: logLevel.NOTHING,
      retry: { initialRetryTime: 50, maxRetryTime: 1000, retries: 40 }
    })
    const idempotent = this.kind !== 'plain'
    const settings = { idempotent, maxInFlightRequests: idempotent ? 1 : 5 }
    if (this.kind === 'transactional') settings.transactionalId = this.name
    const producer = kafka.producer(settings)
    try {
      await producer.connect()
      await (this.kind === 'transactional' ? this.transact(producer) : this.steady(producer))
    } catch (error) {
      this.note('dead', '', typeOf(error))
    }
    await Promise.race([producer.disconnect().catch(() => {}), sleep(5000)])
  }

  async all () {
    while (!over) {
      this.run++
      await this.once()
      if (!over) await sleep(500)
    }
    this.note('ended')
  }
}

process.stdin.resume()
process.stdin.on('end', () => { over = true })
process.removeAllListeners('warning')
Promise.all(producers.map((one) => new Sender(one).all())).then(() => process.exit(0))
