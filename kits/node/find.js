'use strict';

const { execFileSync } = require('node:child_process');
const { createHash } = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const PROGRAM = process.platform === 'win32' ? 'mocketmq.exe' : 'mocketmq';
const NONE = 'no mocketmq was found: put mocketmq on the PATH, set MOCKETMQ_BUNDLE to the folder or the archive of a '
  + 'bundle, or set MOCKETMQ_URL to the address of a running broker';

/** The mocketmq to start. */
function findProgram() {
  if (process.env.MOCKETMQ_BUNDLE) return programOfBundle(process.env.MOCKETMQ_BUNDLE);
  for (const folder of (process.env.PATH ?? '').split(path.delimiter)) {
    const program = path.join(folder, PROGRAM);
    if (folder && isProgram(program)) return program;
  }
  throw new Error(NONE);
}

function isProgram(file) {
  try {
    fs.accessSync(file, fs.constants.X_OK);
    return fs.statSync(file).isFile();
  } catch {
    return false;
  }
}

function programOfBundle(bundle) {
  const about = fs.statSync(bundle, { throwIfNoEntry: false });
  if (!about) throw new Error(`MOCKETMQ_BUNDLE is '${bundle}', which does not exist`);
  const folder = about.isDirectory() ? bundle : unpack(bundle);
  // An archive has one folder, which has the program.
  for (const inside of ['.', ...fs.readdirSync(folder)]) {
    const program = path.resolve(folder, inside, PROGRAM);
    if (isProgram(program)) return program;
  }
  throw new Error(`MOCKETMQ_BUNDLE is '${bundle}', which has no program ${PROGRAM}: name the folder that has it, or the archive`);
}

/**
 * The user's copy of the archive, which its digest names. Test processes may unpack it at the same time: each
 * unpacks into a folder of its own, and the first to finish gives it the name.
 */
function unpack(archive) {
  const digest = createHash('sha256').update(fs.readFileSync(archive)).digest('hex');
  const sums = `${archive}.sha256`;
  if (fs.existsSync(sums) && fs.readFileSync(sums, 'utf8').split(' ')[0].trim() !== digest) {
    throw new Error(`MOCKETMQ_BUNDLE is '${archive}', whose SHA-256 sum is ${digest}, not that of ${sums}`);
  }
  const folder = path.join(cache(), 'mocketmq', `bundle-${digest.slice(0, 16)}`);
  if (fs.existsSync(folder)) return folder;
  fs.mkdirSync(path.dirname(folder), { recursive: true });
  const own = fs.mkdtempSync(path.join(path.dirname(folder), 'unpacking-'));
  try {
    execFileSync('tar', ['-xf', archive, '-C', own], { stdio: 'pipe' }); // Node cannot read xz
    fs.renameSync(own, folder);
  } catch (error) {
    if (!fs.existsSync(folder)) {
      throw new Error(`MOCKETMQ_BUNDLE is '${archive}', which cannot be unpacked: ${error.message}`);
    }
  } finally {
    fs.rmSync(own, { recursive: true, force: true });
  }
  return folder;
}

function cache() {
  if (process.platform === 'win32') return process.env.LOCALAPPDATA ?? os.tmpdir();
  if (process.platform === 'darwin') return path.join(os.homedir(), 'Library', 'Caches');
  return process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache');
}

module.exports = { findProgram };
