/** Files and folders of a simulated disk, and which parts of them would survive a power loss. */

export class SimulatedFile {
  bytes = Buffer.allocUnsafe(256);
  length = 0;
  syncedLength = 0;
  writtenAt = 0;
  /** A sync has failed: the operating system drops what it could not write, so no later sync repairs it. */
  isBroken = false;
  /** Names that refer to it. */
  links = 1;

  copy(): SimulatedFile {
    const { bytes, length, writtenAt } = this;
    return Object.assign(new SimulatedFile(), { bytes: Buffer.from(bytes), length, writtenAt, syncedLength: length });
  }
}

/** A change of a folder: a name that was created, or removed. */
interface Change {
  readonly name: string;
  readonly entry: SimulatedFile | SimulatedFolder | undefined;
}

export class SimulatedFolder {
  readonly entries = new Map<string, SimulatedFile | SimulatedFolder>();
  synced = new Map<string, SimulatedFile | SimulatedFolder>();
  /**
   * Changes since the last sync. Journaling file systems preserve their order, so that after a power loss a prefix
   * remains.
   */
  changes: Change[] = [];

  set(name: string, entry: SimulatedFile | SimulatedFolder): void {
    this.entries.set(name, entry);
    this.changes.push({ name, entry });
  }

  delete(name: string): void {
    this.entries.delete(name);
    this.changes.push({ name, entry: undefined });
  }

  sync(): void {
    this.synced = new Map(this.entries);
    this.changes = [];
  }

  /** A copy of the folder and everything in it, as if synced. */
  copy(): SimulatedFolder {
    const copied = new SimulatedFolder();
    for (const [name, entry] of this.entries) copied.entries.set(name, entry.copy());
    copied.sync();
    return copied;
  }

  /** Goes back to what was synced, plus the first `kept` changes after it. */
  lose(kept: number): void {
    this.entries.clear();
    for (const [name, entry] of this.synced) this.entries.set(name, entry);
    for (const { name, entry } of this.changes.slice(0, kept)) {
      if (entry === undefined) this.entries.delete(name);
      else this.entries.set(name, entry);
    }
    this.sync();
  }
}
