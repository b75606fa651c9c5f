/**
 * A Vitest reporter that appends one line to the file $UNSTEADY for each test or file that failed, and for each test that
 * passed at the second attempt only, so that the end of a CI run names them.
 */
import { appendFileSync } from 'node:fs';

const beginning = (errors) => (errors?.[0]?.message ?? 'no error').split('\n').slice(0, 16).join(' | ').slice(0, 1_500);
const write = (what, name, errors) => {
  if (process.env.UNSTEADY) appendFileSync(process.env.UNSTEADY, `${what}: ${name}: ${beginning(errors)}\n`);
};

export default class UnsteadyReporter {
  onTestCaseResult(test) {
    const { state, errors } = test.result();
    const name = `${test.module.relativeModuleId} > ${test.fullName}`;
    if (state === 'failed') write('failed', name, errors);
    else if (test.diagnostic()?.flaky) write('passed at the second attempt', name, errors);
  }

  onTestSuiteResult(suite) {
    const errors = suite.errors();
    if (errors.length > 0) write('failed', suite.fullName, errors);
  }

  onTestModuleEnd(module) {
    const errors = module.errors();
    if (errors.length > 0) write('failed', module.relativeModuleId, errors);
  }

  onTestRunEnd(_modules, errors) {
    if (errors.length > 0) write('failed', 'outside of any test', errors);
  }
}
